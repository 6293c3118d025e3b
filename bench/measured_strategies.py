#!/usr/bin/env python3
"""Measured training steps of others beside those that emplace predicts for the same strategies.

usage: bench/measured_strategies.py FOLDER [--program P] [--source vtrain|sailor|all] [--every N] [--rows FILE]
                                    [--dispatch MICROSECONDS] [--unaligned-rate SHARE]

FOLDER has `vtrain` and `sailor` (../shared/measured-gpus, whose README states their sources). Nothing is
fitted to the steps that are predicted: `bench/measured/vtrain.py` and `sailor.py` state what is known of the
programs and machines. The time that vTrain's host needs for an op is that of its steps with tensor degree 2
and 4, which are not predicted; `--dispatch 0 --unaligned-rate 1` leaves both out.

Prints Markdown tables of |predicted / measured - 1|. Exit status: 0; 1 if a mean is above what is asked (shown
in the first table); 2 if the folder or the program cannot be used.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from measured import sailor, vtrain
from measured.rows import Row, grouped, line, summary, table
from tables import Failed

#: Means of |error| that are asked.
ASKED = {
    "vTrain, one host": 0.084,
    "vTrain, many hosts": 0.147,
    "Sailor, time, alike": 0.094,
    "Sailor, time, unlike": 0.103,
    "Sailor, peak memory, alike": 0.10,
    "Sailor, peak memory, unlike": 0.25,
}
Sets = dict[str, list[Row]]


def vtrain_sets(options: argparse.Namespace) -> Sets:
    """The steps of one host and of many."""
    folder = options.folder / "vtrain"
    single = vtrain.read_rows(folder / "ground_truth_single.csv")
    reduce = vtrain.AllReduce(folder)
    dispatch = options.dispatch if options.dispatch is not None else vtrain.host_us(single, reduce)
    predictor = vtrain.Predictor(options.program, dispatch, options.unaligned_rate)
    print(f"vTrain: the host needs {dispatch:.1f} us for an op", file=sys.stderr)
    sets: Sets = {}
    with concurrent.futures.ThreadPoolExecutor(options.threads) as pool:
        for name, rows in (
            ("vTrain, one host", vtrain.judged(single)[:: options.every]),
            ("vTrain, many hosts", vtrain.judged(vtrain.read_rows(folder / "ground_truth_multi.csv"))),
        ):
            sets[name] = list(pool.map(lambda row: predictor.row(row, reduce), rows))
    return sets


def sailor_sets(options: argparse.Namespace) -> Sets:
    """The plans, by whether their GPUs are alike. Plans without a usable profile are named and left out."""
    folder = options.folder / "sailor"
    source, copies = sailor.Source(folder), sailor.copied_profiles(folder)
    sets: Sets = {}
    for plan in source.plans():
        kinds = {kind for stage in plan.stages for kind, _ in stage.groups}
        if used := sorted(copies & {f"{plan.model}-{kind}" for kind in kinds}):
            print(f"Sailor: {plan.name} left out: {used[0]} is another model's profile", file=sys.stderr)
            continue
        try:
            rows = sailor.predicted(source, plan, options.program)
        except KeyError as error:
            print(f"Sailor: {plan.name} left out: no times of {error.args[0]}", file=sys.stderr)
            continue
        for what, row in zip(("time", "peak memory"), rows):
            sets.setdefault(f"Sailor, {what}, {row.groups['GPUs']}", []).append(row)
    return sets


def readable(value: float) -> str:
    """Three digits behind the point of small values, none of large ones."""
    return f"{value:,.3f}" if value < 1000 else f"{value:,.0f}"


def page(sets: Sets) -> str:
    """The tables, Markdown."""
    head = [line(["steps", "rows", "asked", "mean", "median", "worst", "bias"]), "|---|" + "--:|" * 6]
    for name, rows in sets.items():
        s = summary(rows)
        errors = [f"{s[key]:.1%}" for key in ("mean", "median", "worst")]
        head.append(line([name, len(rows), f"{ASKED[name]:.1%}", *errors, f"{s['bias']:+.1%}"]))
    pages = ["\n".join(head)]
    pages += [
        table(f"{name}, by", [one for column in rows[0].groups for one in grouped(rows, column)])
        for name, rows in sets.items()
        if name == "vTrain, one host"
    ]
    few = [(name, row) for name, rows in sets.items() if name != "vTrain, one host" for row in rows]
    lines = [line(["step", "", "measured", "predicted", "error"]), "|---|---|--:|--:|--:|"]
    for name, row in few:
        values = [readable(value) for value in (row.measured, row.predicted)]
        lines.append(line([row.name, name, *values, f"{row.error:+.1%}"]))
    return "\n\n".join([*pages, "\n".join(lines)] if few else pages)


def is_met(sets: Sets) -> bool:
    """Whether no mean is above what is asked."""
    return all(summary(rows)["mean"] <= ASKED[name] for name, rows in sets.items())


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--program", default="build/release/emplace")
    parser.add_argument("--source", choices=["vtrain", "sailor", "all"], default="all")
    parser.add_argument("--every", type=int, default=1, help="of vTrain's steps on one host, each Nth")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dispatch", type=float, help="time of vTrain's host for an op [us]")
    parser.add_argument("--unaligned-rate", type=float, default=vtrain.UNALIGNED_RATE)
    parser.add_argument("--rows", type=Path, help="file to which all rows go, one JSON object each")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    sets: Sets = {}
    try:
        if options.source in ("vtrain", "all"):
            sets |= vtrain_sets(options)
        if options.source in ("sailor", "all"):
            sets |= sailor_sets(options)
    except (OSError, ValueError, Failed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.rows is not None:
        with options.rows.open("w", encoding="utf-8") as out:
            for name, rows in sets.items():
                for row in rows:
                    values = {"measured": row.measured, "predicted": row.predicted, **row.groups}
                    out.write(json.dumps({"set": name, "name": row.name, **values}) + "\n")
    print(page(sets))
    return 0 if is_met(sets) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

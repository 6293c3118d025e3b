#!/usr/bin/env python3
"""Asks the program for times of kernels and models that others measured, and writes docs/results/costs.md.

usage: bench/costs/measure.py [--program P] [--measured DIR] [--wheel FOLDER] [--judged FILE…] [--only-page]

  --program P      default: build/release/emplace; one without version 2 of the costs shows version 1
  --measured DIR   measurements (default: ../shared/measured-gpus); without them it ends with `skipped:`
  --wheel FOLDER   where the package aiconfigurator-core is or is downloaded to (default: build/costs)
  --graphs DIR     graphs of the whole models, traced if they are missing (default: build/costs/graphs)
  --judged FILE    JSON of what the fit judged: lists of rows: peers, collectives, links
  --rows FILE      results, one JSON object a line (default: docs/results/costs.jsonl)
  --page FILE      the page (default: docs/results/costs.md)
  --only-page      writes the page from the results that are there

Needs numpy, scipy, pandas and pyarrow; to trace, a Python with torch and transformers: EMPLACE_TORCH,
else this one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench")]

import fitted  # noqa: E402
import held_kernels  # noqa: E402
import kernel_rows  # noqa: E402
import product_examples  # noqa: E402
import whole_models  # noqa: E402
from costs.grid import Error  # noqa: E402
from page import Results, page_text  # noqa: E402
from program import Program  # noqa: E402
from tables import exit_status  # noqa: E402

PARTS: dict[str, Any] = {
    "models": whole_models.Row,
    "kernels": kernel_rows.KernelRow,
    "examples": product_examples.Example,
    "ratios": product_examples.Ratio,
    "left_out": held_kernels.LeftOut,
}


def save(results: Results, path: Path) -> None:
    """One line a row, with the part that it belongs to."""
    lines = [
        json.dumps({"part": part, **dataclasses.asdict(row)})
        for part in PARTS
        for row in getattr(results, part)
    ]
    lines += [json.dumps({"part": part, **row}) for part, rows in results.judged.items() for row in rows]
    path.write_text("".join(line + "\n" for line in lines))


def _load_row(part: str, row: dict[str, Any]) -> Any:
    for name in ("version_1", "version_2"):
        if part == "kernels" and row[name] is not None:
            row[name] = Error(**row[name])
    return PARTS[part](**row)


def load(path: Path) -> Results:
    """What save() wrote."""
    results = Results()
    for line in path.read_text().splitlines():
        row = json.loads(line)
        part = row.pop("part")
        if part in PARTS:
            getattr(results, part).append(_load_row(part, row))
        else:
            results.judged.setdefault(part, []).append(row)
    return results


def measure(options: argparse.Namespace, tables: fitted.Fitted | None, folder: Path) -> Results:
    """All parts of the page."""
    program = Program(options.program, folder)
    sets, fp32 = held_kernels.read(options.wheel, options.measured)
    rows = [one for each in sets for one in each]
    judged: dict[str, list[dict[str, Any]]] = {}
    for path in options.judged:
        for part, found in json.loads(path.read_text()).items():
            if part in ("peers", "collectives", "links"):
                judged.setdefault(part, []).extend(found)
    torch = os.environ.get("EMPLACE_TORCH", sys.executable)
    return Results(
        whole_models.measure(program, options.measured / "models", options.graphs, torch),
        kernel_rows.measure(program, rows, held_kernels.predictors(tables), folder),
        product_examples.examples(program, rows, folder),
        product_examples.ratios(program, fp32, folder),
        held_kernels.judge_left_out(sets),
        judged,
    )


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/emplace")
    parser.add_argument("--measured", type=Path, default=ROOT.parent / "shared/measured-gpus")
    parser.add_argument("--wheel", type=Path, default=ROOT / "build/costs")
    parser.add_argument("--graphs", type=Path, default=ROOT / "build/costs/graphs")
    parser.add_argument("--judged", type=Path, nargs="*", default=[])
    parser.add_argument("--rows", type=Path, default=ROOT / "docs/results/costs.jsonl")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/results/costs.md")
    parser.add_argument("--only-page", action="store_true")
    return parser.parse_args(words)


def run() -> int:
    options = parse()
    tables = fitted.read(ROOT / "placement/costs/fitted.toml")
    if options.only_page:
        results = load(options.rows)
    elif not options.measured.is_dir():
        print(f"skipped: {options.measured} is not there: the measurements are not part of emplace")
        return 0
    else:
        with tempfile.TemporaryDirectory() as folder:
            results = measure(options, tables, Path(folder))
        save(results, options.rows)
    options.page.write_text(page_text(results, tables))
    return 0


if __name__ == "__main__":
    sys.exit(exit_status(run))

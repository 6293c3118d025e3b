#!/usr/bin/env python3
"""How far `pretrained`, `auto` and `scheduler` are from the best known step times with costs of either
version, as one resumable job that writes docs/results/cost_versions.md.

usage: bench/cost_versions.py measure --graphs DIR [--what WHAT[,WHAT…]] [options]
       bench/cost_versions.py page [options]

The weights of the policy and the settings of the searches come from machines with costs of version 1. A
method suffers from version 2 if its step times are further above the best known ones there. The load of the
machine hardly counts: searches end after a number of evaluations, and `auto` runs on one thread whose clock
is its processor time.

measure     WHAT is `fixed` (heuristics, `pretrained`, and the searches with --evaluations), `auto:SECONDS` of
            processor time, or `scheduler:EVALUATIONS`. Both versions of a case run one after the other.
page        writes the page from --out

  --graphs DIR      folder of the training graphs
  --worlds DIR      folder of the generated graphs, which are made as needed (default: build/held_out)
  --weights FILE    weights of pretrained, for `fixed` (default: those in the program), with a --label
  --label TEXT      a name for these weights, kept with each result: `pretrained TEXT` on the page
  --minutes N       start no measurement after N minutes
  --only REGEX      run only "GRAPH/MACHINE/VERSION/WHAT" that match
"""

import functools
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

from tables import (
    Failed,
    Rows,
    exit_status,
    find_graph,
    finish,
    markdown,
    mean,
    parser_of,
    run_jobs,
    run_program,
)

VERSIONS = (1, 2)
GRAPHS = ["rnnlm-bs64", "inception_v3-bs32", "unet-bs4", "resnet50-bs32", "vit_b_16-bs32", "googlenet-bs64",
          "transformer_base-bs64-seq40", "mobilenet_v3_large-bs64"]  # fmt: skip
# Held-out worlds of a seed (docs/guide/worlds.md), by number. Their own machines are not used.
SEED, WORLDS = 28, {"translator": 3, "diffusion": 4, "graph-attention": 7, "dense": 9}
MACHINES = {
    "H100": "h100 x 4, epyc9654",
    "A100 and V100": "a100_40 x 2, v100_32 x 2, xeon8380",
    "RTX 4090 and 2080 Ti": "rtx4090 x 2, rtx2080ti x 2, ryzen7950x",
    "MI300X and MI210": "mi300x x 2, mi210 x 2, epyc7763",
}
HEURISTICS = ["single-gpu", "expert", "scotch", "metis", "mincut", "m-topo", "m-etf", "heft"]
SEARCHES = ["local-search", "anneal"]
RETRAIN = 1.02  # A method this much further above the best known with version 2 is trained again.

# The clock of a program becomes the processor time of all its threads, from the first look at it.
CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec* now) {
  static struct timespec origin;
  if (id != CLOCK_MONOTONIC) return (int)syscall(SYS_clock_gettime, id, now);
  if (origin.tv_sec == 0) syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &origin);
  syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, now);
  now->tv_sec += origin.tv_sec + (now->tv_nsec + origin.tv_nsec) / 1000000000;
  now->tv_nsec = (now->tv_nsec + origin.tv_nsec) % 1000000000;
  return 0;
}
"""
CONFIG = """[run]
budget = "0s"
evaluations = %d
starts = ["best-heuristic"]
[input]
graph = %s
devices = %s
[policy]
method = "scheduler"
[compare]
methods = %s
"""
Row = dict[str, Any]


def arguments() -> Any:
    parser = parser_of(__doc__, out="docs/results/cost_versions.jsonl")
    parser.add_argument("command", choices=["measure", "page"])
    parser.add_argument("--what", default="fixed,auto:1")
    parser.add_argument("--graphs")
    parser.add_argument("--worlds", default="build/held_out")
    parser.add_argument("--page", default="docs/results/cost_versions.md")
    parser.add_argument("--evaluations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weights", default="")
    parser.add_argument("--label", default="")
    parser.add_argument("--minutes", type=float, default=0)
    args = parser.parse_args()
    if args.command == "measure" and not args.graphs:
        parser.error("--graphs is needed to measure")
    return args


# ---- Measuring ----


def graph_file(args: Any, graph: str) -> str:
    """The file of a graph, generated if it is a world. Raises Failed."""
    if graph not in WORLDS:
        return str(find_graph(args.graphs, graph))
    path = os.path.join(args.worlds, f"{WORLDS[graph]:03}-{graph}.json.gz")
    if not os.path.exists(path):
        os.makedirs(args.worlds, exist_ok=True)
        words = ["--held-out", "--seed", str(SEED), "--index", str(WORLDS[graph]), "-o", path]
        run_program(args.program, ["generate", "worlds", *words])
    return path


def fixed(args: Any, graph: str, machine: str, version: int) -> dict[str, float | None]:
    """Step time [s] of each method; None: it does not fit. With weights of pretrained, only that method."""
    common = ["-d", machine, "--cost-version", str(version), "--seed", str(args.seed)]
    if args.weights:
        placed = run_program(
            args.program, ["place", graph, "-m", "pretrained", "--weights", args.weights, *common]
        )
        return {"pretrained " + args.label: placed["measured"]["step_time_s"]}
    methods = ",".join([*HEURISTICS, "pretrained", *SEARCHES])
    words = ["compare", graph, "-m", methods, "--evaluations", str(args.evaluations), *common]
    table = run_program(args.program, words)
    return {m["method"]: m["step_time_s"] if m["valid"] else None for m in table["methods"]}


def auto(args: Any, graph: str, machine: str, version: int, seconds: float) -> float | None:
    """Step time [s] of `auto` with so much processor time, on one thread."""
    with tempfile.TemporaryDirectory(prefix="emplace-bench-") as folder:
        clock = os.path.join(folder, "clock.so")
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", clock], input=CLOCK.encode(), check=True
        )
        words = [
            "LD_PRELOAD=" + clock,
            args.program,
            "place",
            graph,
            "-d",
            machine,
            "--cost-version",
            str(version),
        ]
        words += ["--budget", f"{seconds:g}s", "--threads", "1", "--seed", str(args.seed)]
        placed = run_program("env", words, (0, 3))
    return placed["measured"]["step_time_s"] if placed and placed["measured"]["valid"] else None


def scheduler(args: Any, graph: str, machine: str, version: int, evaluations: int) -> float | None:
    """Step time [s] of a run of `scheduler` from the best heuristic, after this number of placements."""
    with tempfile.TemporaryDirectory(prefix="emplace-bench-") as folder:
        config = os.path.join(folder, "run.toml")
        words_of = (evaluations, *map(json.dumps, (os.path.abspath(graph), machine, HEURISTICS)))
        with open(config, "w") as file:
            file.write(CONFIG % words_of)
        words = ["run", config, "--run-dir", os.path.join(folder, "run"), "--cost-version", str(version)]
        made = run_program(args.program, [*words, "--seed", str(args.seed)], (0, 3))
    known = [made["best_step_time_s"], *made["baseline_step_time_s"].values()] if made else []
    return min((seconds for seconds in known if seconds), default=None)


def measured(args: Any, graph: str, machine: str, version: int, what: str) -> Row:
    """One line of results: step time [s] by method."""
    path, text = graph_file(args, graph), MACHINES[machine]
    name, _, size = what.partition(":")
    if name == "fixed":
        times = fixed(args, path, text, version)
    elif name == "auto":
        times = {what: auto(args, path, text, version, float(size))}
    elif name == "scheduler":
        times = {what: scheduler(args, path, text, version, int(size))}
    else:
        raise Failed(f"--what: '{what}' is not known; use fixed, auto:SECONDS or scheduler:EVALUATIONS")
    of = {"graph": graph, "machine": machine, "version": version, "what": what, "label": args.label}
    return {**of, "step_time_s": times}


def key_of(row: Row) -> tuple[str, str, int, str, str]:
    return row["graph"], row["machine"], row["version"], row["what"], row["label"]


def cases() -> Iterator[tuple[str, str]]:
    """Every graph on every machine, in such an order that each quarter has all graphs and all machines."""
    machines = list(MACHINES)
    for turn in range(len(machines)):
        for number, graph in enumerate([*GRAPHS, *WORLDS]):
            yield graph, machines[(number + turn) % len(machines)]


def shown(row: Row) -> str:
    return " ".join(
        f"{method} {seconds * 1e3:.4g}" for method, seconds in row["step_time_s"].items() if seconds
    )


def measure(args: Any) -> int:
    results, jobs = Rows(args.out, key_of), []
    for what in args.what.split(","):
        for graph, machine in cases():
            for version in VERSIONS:
                name = f"{graph}/{machine}/{version}/{what}"
                done = (graph, machine, version, what, args.label) in results.rows
                if not done and re.search(args.only, name):
                    jobs.append((name, functools.partial(measured, args, graph, machine, version, what)))
    failures = run_jobs(results.add, jobs, shown, minutes=args.minutes)
    return int(finish(failures, "measurements"))


# ---- Page ----


def tables_of(rows: Iterable[Row]) -> dict[tuple[str, str], dict[int, dict[str, float]]]:
    """(graph, machine) -> version -> method -> step time [s]; only cases that both versions have."""
    found: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
    for row in rows:
        of = found.setdefault((row["graph"], row["machine"]), {version: {} for version in VERSIONS})[
            row["version"]
        ]
        of.update({method: seconds for method, seconds in row["step_time_s"].items() if seconds})
    for case in found.values():
        common = set.intersection(*(set(case[version]) for version in VERSIONS))
        for version in VERSIONS:
            case[version] = {method: seconds for method, seconds in case[version].items() if method in common}
            simple = [case[version][method] for method in HEURISTICS if method in common]
            if simple:
                case[version]["best heuristic"] = min(simple)
    return {case: of for case, of in found.items() if "best heuristic" in of[VERSIONS[0]]}


def line_of(method: str, ratios: dict[int, list[float]], simple: dict[int, list[float]]) -> list[str]:
    """A row of the table; version -> step time over the best known, over the best heuristic, case by case."""
    logs = [math.log(new / old) for old, new in zip(*(ratios[version] for version in VERSIONS), strict=True)]
    error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    worst = [f"{max(ratios[version]):.3f}" for version in VERSIONS]
    change = math.exp(statistics.mean(logs))
    return [method, str(len(logs)), *(f"{mean(ratios[version]):.3f}" for version in VERSIONS), *worst,
            f"{change:.3f} ± {error:.3f}", "yes" if change > RETRAIN else "no",
            *(f"{mean(simple[version]):.3f}" for version in VERSIONS)]  # fmt: skip


def page(args: Any) -> int:
    found = tables_of(Rows(args.out, key_of).rows.values())
    if not found:
        raise Failed(f"{args.out}: has no case with both versions; measure first")
    best = {case: {version: min(of[version].values()) for version in VERSIONS} for case, of in found.items()}
    methods = {
        method: None for of in found.values() for method in of[VERSIONS[0]] if method not in HEURISTICS
    }
    lines = []
    for method in methods:
        cases_with = [case for case, of in found.items() if method in of[VERSIONS[0]]]
        ratios = {v: [found[case][v][method] / best[case][v] for case in cases_with] for v in VERSIONS}
        simple = {
            v: [found[case][v][method] / found[case][v]["best heuristic"] for case in cases_with]
            for v in VERSIONS
        }
        lines.append(line_of(method, ratios, simple))
    head = ["method", "cases", "version 1", "version 2", "worst 1", "worst 2", "2 over 1", "more than 2 %"]
    head += ["over best heuristic 1", "2"]
    rows = [[graph, machine, *(f"{best[graph, machine][version] * 1e3:.3f}" for version in VERSIONS),
             *(f"{found[graph, machine][version]['pretrained'] / best[graph, machine][version]:.3f}"
               for version in VERSIONS)]
            for graph, machine in sorted(found)
            if "pretrained" in found[graph, machine][VERSIONS[0]]]  # fmt: skip
    head_of_rows = ["graph", "machine", "best 1 [ms]", "best 2 [ms]", "pretrained 1", "pretrained 2"]
    texts = {
        "methods": markdown(head, lines),
        "rows": markdown(head_of_rows, rows, 2),
        "machines": machines_text(),
    }
    with open(args.page, "w") as file:
        file.write(TEXT % {"cases": len(found), "evaluations": f"{args.evaluations:,}", **texts})
    return 0


def machines_text() -> str:
    return "".join(f"\n  - {name}: `{text}`" for name, text in MACHINES.items())


TEXT = """# Methods with costs of either version

Do the methods that were made with costs of version 1 suffer from version 2? %(cases)d cases, each a graph on
a machine, with both versions. `bench/cost_versions.py` measures and writes this page; results are in
`docs/results/cost_versions.jsonl`.

- version 1, version 2: step time over the best known one of the case with costs of that version, geometric
  mean. The best known is the least of all methods that measured the case with both versions.
- worst: the largest of these ratios.
- 2 over 1: geometric mean of the second ratio over the first, case by case, ± its standard error. A method
  more than 2 %% above 1 would be trained again.
- over the best heuristic: geometric means against the fastest of the heuristics. `auto` itself is the best
  known of most cases that it measured, so it is judged by these and by its own longer searches.
- `auto:N` had N seconds of processor time on one thread, whose clock counts only that. `scheduler:N`
  measured N placements from the best heuristic, the other searches %(evaluations)s. So the load of the
  machine hardly counts.
- Machines:%(machines)s

%(methods)s
## Cases
%(rows)s"""


def main() -> int:
    args = arguments()
    return int(exit_status(lambda: {"measure": measure, "page": page}[args.command](args)))


if __name__ == "__main__":
    sys.exit(main())

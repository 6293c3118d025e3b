#!/usr/bin/env python3
"""How far plans of one device are from the bound, by how much memory there is.

usage: bench/memory_plans.py [--program P] [--devices D] [--shares 90,60,40] [--budget S] GRAPH…

Each graph is placed on the first device of a machine with a share of the memory that it needs there, with
`--allow recompute`. A cell has the step time over the lower bound of its plans, less 1; "state" if provably nothing
fits, "none" if nothing was found. The table is Markdown; the last line has the median.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from pathlib import Path


def emplace(program: str, command: str, *arguments: str) -> tuple[dict, str]:
    """The JSON of a command, empty if it ended with an error; and standard error."""
    line = [program, command, *arguments, "--json", "--quiet"]
    done = subprocess.run(line, check=False, capture_output=True, text=True)
    return (json.loads(done.stdout) if done.returncode == 0 else {}), done.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/emplace")
    parser.add_argument("--devices", default="h100", help="a machine of one device")
    parser.add_argument("--shares", default="90,60,40", help="percent of the memory that the graph needs")
    parser.add_argument("--budget", default="3s")
    parser.add_argument("graphs", nargs="+", metavar="GRAPH")
    options = parser.parse_args()
    shares = [int(share) for share in options.shares.split(",")]
    machine = ["--devices", options.devices]
    print("| graph | needs | " + " | ".join(f"{share} %" for share in shares) + " |")
    print("|---|--:|" + "--:|" * len(shares))
    gaps = []
    for graph in options.graphs:
        inspected, error = emplace(options.program, "inspect", graph, *machine)
        if not inspected:
            raise SystemExit(f"{graph}: {error.strip()}")
        device = inspected["devices"][0]
        needs = device["all_ops_peak_bytes"]
        cells = []
        for share in shares:
            reserve = ["--reserve", f"{device['memory_bytes'] - needs * share // 100}B"]
            search = ["--allow", "recompute", "--budget", options.budget]
            plan, error = emplace(options.program, "place", graph, *machine, *reserve, *search)
            if plan:
                gaps.append(plan["measured"]["step_time_s"] / plan["lower_bound_s"] - 1)
                cells.append(f"{gaps[-1]:.1%}")
            else:
                cells.append("state" if "no placement fits" in error else "none")
        row = [Path(graph).name.split(".")[0], f"{needs / 2**30:.2f} GiB", *cells]
        print("| " + " | ".join(row) + " |", flush=True)
    if gaps:
        print(f"\nmedian {statistics.median(gaps):.1%} of {len(gaps)}")


if __name__ == "__main__":
    main()

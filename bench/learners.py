#!/usr/bin/env python3
"""One learning iteration at the papers' sizes against the same policy in PyTorch, in turn on one core.

usage: bench/learners.py --peer PLACERS.py [--python PYTHON ...] [--rounds 3]

PLACERS.py is a PyTorch program that prints "... cpu s/iter MEDIAN (...)" for `hp`, `coloc` and `placeto_replay`. Each
round runs our benchmark and then the peer with every PYTHON, each with a PyTorch of its own. Times are processor time,
which other work on the machine disturbs less than wall time; the ratio is of medians over the rounds.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Iteration: our benchmarks, whose sum is one iteration, and the peer's words.
ITERATIONS = {
    "Hierarchical Planner, 83,712 ops, 256 groups, 4 groupings of a placement each": (
        "nn_bench", "BM_Hierarchical(Sample|Update)/83712/256/256/4$", ["hp", "1", "3"]),
    "the same with one grouping of 4 placements, the paper's; the peer draws 4 groupings": (
        "nn_bench", "BM_Hierarchical(Sample|Update)/83712/256/256/1$", ["hp", "1", "3"]),
    "ColocRL, 280 groups": ("nn_bench", "BM_ColocRl(Sample|Update)/22097/280/256/1/", ["coloc", "1", "3"]),
    "Placeto, 160 nodes": ("placeto_bench", "BM_PlacetoIteration/160$", ["placeto_replay", "1", "3"]),
}


def ours(programs, benchmark, pattern):
    """Processor time [s] of the benchmarks that match, summed."""
    done = subprocess.run([programs / benchmark, "--benchmark_filter=" + pattern, "--benchmark_format=json"],
                          capture_output=True, text=True, check=True)
    seconds = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
    return sum(b["cpu_time"] * seconds[b["time_unit"]] for b in json.loads(done.stdout)["benchmarks"])


def theirs(python, peer, words):
    """Processor time [s] of an iteration of the peer."""
    done = subprocess.run([python, peer, *words], capture_output=True, text=True, check=True)
    return float(re.search(r"cpu s/iter ([0-9.]+)", done.stdout).group(1))


def version(python):
    return subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                          check=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--python", action="append", metavar="PYTHON")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release", help="folder with our benchmarks")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    pythons = args.python or ["python3"]
    versions = [version(python) for python in pythons]
    print("| iteration | emplace | %s |" % " | ".join("PyTorch %s | ratio" % v for v in versions))
    print("|---|--:|" + "--:|--:|" * len(pythons))
    for name, (benchmark, pattern, words) in ITERATIONS.items():
        mine, peers = [], [[] for _ in pythons]
        for _ in range(args.rounds):
            mine.append(ours(args.programs, benchmark, pattern))
            for found, python in zip(peers, pythons):
                found.append(theirs(python, args.peer, words))
        base = statistics.median(mine)
        cells = ["%.0f ms | %.1f" % (1e3 * statistics.median(found), statistics.median(found) / base) for found in peers]
        print("| %s | %.0f ms | %s |" % (name, 1e3 * base, " | ".join(cells)), flush=True)


if __name__ == "__main__":
    main()

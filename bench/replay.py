#!/usr/bin/env python3
"""Time of a replay, and whether it is bit-identical: runs of the quickstart's policy on fake executors, each replayed several
times. Needs a built program.

    usage: bench/replay.py [--program build/release/emplace] [--executors 1,8] [--delay 50ms] [--seconds 20] [--times 20]

Prints per run: the number of identical replays; replay time over the time of its updates alone (a learner that reads no
log); run time over replay time. Budgets: all replays identical; at most 1.1; at least 5 with 50 ms per measurement.
Floor: the updates alone.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def emplace(program, *arguments):
    done = subprocess.run([program, *arguments, "--json", "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--program", default=str(ROOT / "build" / "release" / "emplace"))
    options.add_argument("--executors", default="1,8")
    options.add_argument("--delay", default="50ms")
    options.add_argument("--seconds", type=float, default=20)
    options.add_argument("--times", type=int, default=20)
    given = options.parse_args()
    print("executors  updates  identical   replay s   / updates alone   run / replay   parameters")
    failed = False
    for executors in given.executors.split(","):
        with tempfile.TemporaryDirectory() as folder:
            directory = str(pathlib.Path(folder) / "run")
            emplace(given.program, "run", str(ROOT / "configs" / "quickstart.toml"), "--run-dir", directory, "--budget", f"{given.seconds}s",
                    "--set", 'run.starts=["scratch"]', "--set", "executor.kind=fake", "--set", f"executor.delay={given.delay}",
                    "--set", f"executor.count={executors}", "--set", f"pipeline.max_outstanding={max(2, int(executors))}",
                    "--set", "pipeline.placements_per_lease=1")
            replays = [emplace(given.program, "replay", directory, "--verify") for _ in range(given.times)]
        same = sum(replay["identical"] for replay in replays)
        wall = statistics.median(replay["wall_s"] for replay in replays)
        over = statistics.median(replay["wall_s"] / replay["update_s"] for replay in replays)
        failed = failed or same < given.times
        print(f"{executors:>9}  {replays[0]['updates']:>7}  {same:>3} of {given.times:<3}  {wall:>9.3f}  {over:>16.3f}  "
              f"{replays[0]['run_wall_s'] / wall:>13.1f}   {replays[0]['parameters_sha256'][:16]}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

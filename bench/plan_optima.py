#!/usr/bin/env python3
"""How far memory plans are from the exact optimum, on small training steps (bench/small_steps.py).

usage: bench/plan_optima.py solve [--only REGEX]     adds the optima that the store lacks
       bench/plan_optima.py measure [--only REGEX]   searches, and prints the distances to the stored optima

Sets: `one`, one device; the optimum is that of an integer program (bench/plan_program.py; needs highspy).
`two`, two devices; the optimum is the best of every plan and placement (bench/every_plan.cc). `moves`, the
same with tensors that wait on the other device, and come back after any kernel.

A step has up to three memories: the least in which any plan fits, and a third and two thirds of the way from
there to the memory in which the fastest placement keeps everything. Every optimum is simulated by `evaluate`
before it is stored. Those of HiGHS are also compared with the simulator's best of all plans.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from small_steps import small_step
from tables import Failed, Rows, exit_status, finish, markdown, run_jobs, run_program

ROOT = Path(__file__).resolve().parents[1]
KIB = 1024
SHARES = (0.0, 0.33, 0.67)
#: Set: number of steps, least and most kernels of each. With moves there are the most plans of a step.
SETS = {"one": (150, 20, 40), "two": (50, 7, 12), "moves": (50, 5, 8)}
LINKS = ("pcie4_x16", "nvlink4")


class Case:
    """A step and its machine, in files."""

    def __init__(self, folder: Path, which: str, seed: int) -> None:
        _, least, most = SETS[which]
        self.which, self.folder, self.document = which, folder, small_step(seed, least, most)
        self.profiles = ["h100"] if which == "one" else ["h100", ("h100", "a100")[seed // 4 % 2]]
        self.link = LINKS[seed // 8 % 2]
        self.kernels = [op for op in self.document["ops"] if "measured_us" in op]
        for op in self.kernels:
            us = op["measured_us"]["gpu"]
            op["measured_us"]["a100"] = round(1.6 * us, 2)  # The slower device.
        self.hash = ""
        self.graph = str(folder / "graph.json")
        Path(self.graph).write_text(json.dumps(self.document))

    def machine(self, memory: int) -> str:
        file = self.folder / f"{memory}.toml"
        lines = [
            f'[[device]]\nname = "gpu:{k}"\nprofile = "{profile}"\nmemory = "{memory}B"\n'
            for k, profile in enumerate(self.profiles)
        ]
        file.write_text("".join(lines) + f'[[link]]\nbetween = ["*", "*"]\nprofile = "{self.link}"\n')
        return str(file)

    def simulated(self, program: str, plan: dict[str, Any], memory: int) -> tuple[int, bool]:
        """Step time [ns] of a plan, and whether it fits."""
        file = self.folder / "plan.json"
        content = {
            "format": "emplace-placement",
            "version": 2,
            "graph_sha256": self.hash,
            "devices": [f"gpu:{k}" for k in range(len(self.profiles))],
            "ops": plan["placement"],
            "recompute": plan["recompute"],
            "move": plan["move"],
        }
        file.write_text(json.dumps(content))
        measured = run_program(
            program, ["evaluate", self.graph, str(file), "-d", self.machine(memory)], (0, 3)
        )
        return round(measured["step_time_s"] * 1e9), measured["valid"]

    def frontier(self, tool: str) -> list[dict[str, Any]]:
        """The best of all plans, by memory."""
        words = [tool, self.graph, self.machine(1 << 40)] + ["offload"] * (self.which == "moves")
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        if done.returncode:
            raise Failed(done.stderr.strip())
        return [json.loads(line) for line in done.stdout.splitlines()]

    def packed(self, memory: int, ns: int, plan: dict[str, Any]) -> dict[str, Any]:
        """A stored optimum: `again` has positions of kernels that run again, `on` the device of each op."""
        again = [k for k, op in enumerate(self.kernels) if op["name"] in plan["recompute"]]
        row = {"kib": memory // KIB, "ns": ns, "again": again}
        if self.which != "one":
            row["on"] = "".join(plan["placement"][op["name"]][-1] for op in self.document["ops"])
        if plan["move"]:
            row["move"] = plan["move"]
        return row


def best_within(frontier: list[dict[str, Any]], memory: int) -> dict[str, Any] | None:
    return next((each for each in reversed(frontier) if each["peak_bytes"] <= memory), None)


def memories(least: int, need: int) -> list[int]:
    return sorted({(least + int(share * (need - least))) // KIB * KIB for share in SHARES})


def solved(options: argparse.Namespace, which: str, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        case = Case(Path(folder), which, seed)
        frontier = case.frontier(options.every)
        least, need = frontier[0]["peak_bytes"], frontier[-1]["peak_bytes"]
        row = {"set": which, "seed": seed, "kernels": len(case.kernels), "optima": []}
        inspected = run_program(options.program, ["inspect", case.graph, "-d", case.machine(1 << 40)])
        case.hash = inspected["graph_sha256"]
        if which == "one":
            need = inspected["devices"][0]["all_ops_peak_bytes"]
        for memory in memories(least, need):
            plan = best_within(frontier, memory)
            if which == "one":
                plan = program_plan(case, options.program, memory, plan)
            if case.simulated(options.program, plan, memory) != (plan["step_ns"], True):
                raise Failed(
                    f"the plan for {memory} B does not have the time of the optimum, or does not fit"
                )
            row["optima"].append(case.packed(memory, plan["step_ns"], plan))
        return row


def program_plan(case: Case, program: str, memory: int, best: dict[str, Any]) -> dict[str, Any]:
    """The optimum by HiGHS. Raises Failed where it is not that of all plans."""
    from plan_program import Step, best_plan

    found = best_plan(Step(case.document), memory)
    if found is None:
        raise Failed(f"a plan fits in {memory} B, but by HiGHS none does")
    again_ns, again = found
    kept_ns = sum(round(1000 * op["measured_us"]["gpu"]) for op in case.kernels)
    if kept_ns + again_ns != best["step_ns"]:
        raise Failed(f"{memory} B: {kept_ns + again_ns} ns by HiGHS, {best['step_ns']} ns by all plans")
    placement = {op["name"]: "gpu:0" for op in case.document["ops"]}
    return {"step_ns": best["step_ns"], "placement": placement, "recompute": again, "move": []}


def measured(options: argparse.Namespace, row: dict[str, Any]) -> dict[str, Any]:
    """What the search finds: step times [ns], 0 where it finds nothing."""
    allow = "recompute,offload" if row["set"] == "moves" else "recompute"
    found = []
    with tempfile.TemporaryDirectory() as folder:
        case = Case(Path(folder), row["set"], row["seed"])
        for optimum in row["optima"]:
            machine = case.machine(optimum["kib"] * KIB)
            search = ["--allow", allow, "--budget", options.budget, "--threads", "1"]
            placed = run_program(options.program, ["place", case.graph, "-d", machine, *search], (0, 3))
            found.append(round(placed["measured"]["step_time_s"] * 1e9) if placed else 0)
    return {"set": row["set"], "seed": row["seed"], "found": found}


def table(store: Rows, found: list[dict[str, Any]]) -> str:
    head = [
        "set",
        "memory",
        "optima",
        "decisions",
        "optimal",
        "within 2 %",
        "not found",
        "worst (step: distance)",
    ]
    lines = []
    for which in SETS:
        for memory in ("least", "more"):
            gaps, decided = [], 0
            for row in found:
                optima = store.rows[row["set"], row["seed"]]["optima"] if row["set"] == which else []
                for k, optimum in enumerate(optima):
                    if (k == 0) != (memory == "least"):
                        continue
                    decided += bool(optimum["again"] or "move" in optimum)
                    ns = row["found"][k]
                    gaps.append((ns / optimum["ns"] - 1 if ns else math.inf, row["seed"]))
            if not gaps:
                continue
            missed = sorted(((gap, seed) for gap, seed in gaps if 1e-9 < gap < math.inf), reverse=True)
            worst = ", ".join(f"{seed}: {gap:.2%}" for gap, seed in missed[:3])
            optimal, none = (sum(test(gap) for gap, _ in gaps) for test in (lambda g: g <= 1e-9, math.isinf))
            within = sum(gap <= 0.02 for gap, _ in gaps)
            lines.append([which, memory, len(gaps), decided, optimal, within, none, worst])
    return markdown(head, lines, 2)


def run(options: argparse.Namespace) -> int:
    store = Rows(options.store, lambda row: (row["set"], row["seed"]))
    wanted = [
        (which, seed)
        for which, (count, _, _) in SETS.items()
        for seed in range(1, count + 1)
        if re.search(options.only, f"{which}/{seed}")
    ]
    if options.command == "solve":
        jobs = [
            (f"{which}/{seed}", lambda which=which, seed=seed: solved(options, which, seed))
            for which, seed in wanted
            if (which, seed) not in store.rows
        ]
        return finish(
            run_jobs(store.add, jobs, lambda row: str([each["ns"] for each in row["optima"]])), "steps"
        )
    found: list[dict[str, Any]] = []
    jobs = [
        (f"{which}/{seed}", lambda row=store.rows[which, seed]: measured(options, row))
        for which, seed in wanted
        if (which, seed) in store.rows
    ]

    def show(row: dict[str, Any]) -> str:
        optima = store.rows[row["set"], row["seed"]]["optima"]
        return str([f"{ns / best['ns'] - 1:.4%}" if ns else "none" for ns, best in zip(row["found"], optima)])

    failures = run_jobs(found.append, jobs, show)
    print(table(store, found))
    return finish(failures, "steps")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("solve", "measure"))
    parser.add_argument("--program", default="build/release/emplace")
    parser.add_argument("--every", default="build/release/every_plan", help="the program every_plan")
    parser.add_argument("--store", default=str(ROOT / "docs/results/plan_optima.jsonl"))
    parser.add_argument("--only", default="", metavar="REGEX", help="rows SET/SEED that match")
    parser.add_argument("--budget", default="2s", help="budget of a search")
    options = parser.parse_args()
    return exit_status(lambda: run(options))


if __name__ == "__main__":
    sys.exit(main())

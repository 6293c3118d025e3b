#!/usr/bin/env python3
"""The experiments of the four papers, as one resumable job, and the page with every published number beside ours.

usage: bench/papers.py run [options]     run what is missing, append each result to the results
       bench/papers.py cost [options]    estimate what is missing; run nothing but short pilots
       bench/papers.py page              write docs/results/papers.md and its pictures from the results

configs/papers/experiments.toml lists the rows. Stage A is every row with the paper's settings, and with its table's
departures for stability if there are any, then families and orders; stage B is the tuned preset and the other seeds of
the rows of headline.toml. A run is named ROW/paper, ROW/stable or ROW/tuned and has a seed; `--only` selects runs by a
regular expression over "NAME/SEED".

Each result is one line of docs/results/papers.jsonl: step times [s], placements, processor time [s], commit. A result
counts as long as the settings and the machine of its run are what they were (`setup`); otherwise it is run again. The
job can be stopped at any time, and any machine continues with the file.

A run's cost comes from the same run with another seed, else from pilots of 2 and 4 % of it. A row whose seeds of a stage
take more than --most core-minutes is not run; its line has the estimated hours of these seeds instead. It is tried again
with a higher --most.
"""
import argparse
import functools
import json
import math
import os
import pathlib
import re
import shlex
import sqlite3
import subprocess
import sys
import tempfile
import threading
import tomllib

import papers_page
from papers_families import confidence, family_runs
from papers_run import Run, digest, row_key, set_keys
from tables import Failed, Rows, exit_status, finish, run_jobs, run_measured, run_program

ROOT = pathlib.Path(__file__).resolve().parent.parent
ONE_CPU = '[[device]]\nname = "cpu:0"\nprofile = "haswell18-calibrated"\n'  # Of a machine without any.
BASELINES = ["single-cpu", "single-gpu", "scotch", "mincut", "metis", "expert", "towers-sync", "towers-async"]
PILOT_SHARE, PILOT_EPISODES = 0.02, 8
BINS = 50  # Points of a learning curve.


def words(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "cost", "page"])
    parser.add_argument("--program", default=str(ROOT / "build/release/emplace"))
    parser.add_argument("--configs", default=str(ROOT / "configs"), help="folder with papers/ and devices/")
    parser.add_argument("--results", default=str(ROOT / "docs/results/papers.jsonl"))
    parser.add_argument("--page", default=str(ROOT / "docs/results/papers.md"))
    parser.add_argument("--no-pictures", action="store_true", help="write the page alone")
    parser.add_argument("--graphs", default=str(ROOT / "build/papers"), help="folder for generated graphs and policies")
    parser.add_argument("--stage", choices=["A", "B"], help="only this stage; default: A, then B")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--entropy", action="store_true", help="run also what has a result without its entropy")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at the same time, a core each")
    parser.add_argument("--most", type=float, default=30, metavar="MIN", help="core-minutes of one row")
    parser.add_argument("--minutes", type=float, default=0, help="start no run after this wall time; 0: no limit")
    return parser.parse_args(argv)


# --- What there is to run ---------------------------------------------------------------------------------------------


class Plan:
    """experiments.toml and headline.toml, and the runs that follow from them."""

    def __init__(self, configs):
        self.configs = pathlib.Path(configs)
        papers = self.configs / "papers"
        table = tomllib.loads((papers / "experiments.toml").read_text())
        self.graphs, self.rows = table["graphs"], table["row"]
        self.families, self.orders = table.get("family", []), table.get("orders", [])
        self.departures = table.get("stable", {})
        unknown = set(self.departures) - {row["table"] for row in self.rows}
        if unknown:
            raise Failed("experiments.toml: [stable.%s] is no table of a row" % min(unknown))
        headline = tomllib.loads((papers / "headline.toml").read_text())
        self.seeds, self.headline_tables = headline["seeds"], headline["tables"]
        names = [row["name"] for row in self.rows]
        if len(set(names)) < len(names):
            raise Failed("experiments.toml: two rows have the same name")

    def is_headline(self, row):
        return row["table"] in self.headline_tables

    def config(self, row):
        """The values of a row's config file, with the departures that it names and its own keys."""
        values = tomllib.loads((self.configs / "papers" / row["config"]).read_text())
        if "stable" in row:
            set_keys(values, self.departures[row["stable"]]["set"])
        return set_keys(values, row.get("set", {}))

    def stable(self, row):
        """A row with its table's departures for stability, and the seeds of these; None for a table without any."""
        known = self.departures.get(row["table"])
        return known and {**row, "stable": row["table"], "seeds": known["seeds"]}

    def graph(self, row):
        """The name of a row's graph: a key of [graphs]."""
        name = row.get("graph") or pathlib.Path(self.config(row)["input"]["graph"]).name.removesuffix(".json.gz")
        if name not in self.graphs:
            raise Failed("experiments.toml: %s needs the graph '%s'; add it to [graphs]" % (row["name"], name))
        return name

    def devices(self, row):
        return row.get("devices") or pathlib.Path(self.config(row)["input"]["devices"]).stem

    def machine(self, devices):
        """The values of a device file."""
        return tomllib.loads((self.configs / "devices" / (devices + ".toml")).read_text())

    def runs(self, stage):
        """Every run of a stage, in the order of execution."""
        if stage == "A":
            for row in self.rows:
                for seed in row.get("seeds", [1]):
                    yield LearnedRun(self, row, "paper", seed)
            for row in filter(None, map(self.stable, self.rows)):
                for seed in row["seeds"]:
                    yield LearnedRun(self, row, "stable", seed)
            for family in self.families:
                yield from family_runs(self, family)
            for row in self.orders:
                yield from (OrdersRun(self, row, seed) for seed in row["seeds"])
        else:
            for seed in self.seeds:
                for row in self.rows:
                    if self.is_headline(row):
                        more = [other for other in self.seeds if other not in row.get("seeds", [1])]
                        yield LearnedRun(self, row, "paper", seed, len(more) if seed in more else None)
                    tuned = row.get("tuned_seeds", self.seeds) if row.get("tuned") else []
                    if seed in tuned:
                        yield LearnedRun(self, row, "tuned", seed, len(tuned))


class LearnedRun(Run):
    """`emplace run` of a row with the paper's settings (`stable`: with the departures, too) or the tuned preset."""

    def __init__(self, plan, row, preset, seed, seeds=None):
        self.row, self.preset, self.seed, self.name = row, preset, seed, row["name"] + "/" + preset
        self.graph, self.devices = plan.graph(row), plan.devices(row)
        self.seeds = seeds or len(row.get("seeds", [1]))
        self.values = self.tuned_values(plan.config(row), row) if preset == "tuned" else plan.config(row)
        for section, key in (("run", "seed"), ("input", "graph"), ("input", "devices")):
            self.values[section].pop(key, None)
        self.setup = digest([self.values, plan.graphs[self.graph], plan.machine(self.devices)])

    @staticmethod
    def tuned_values(values, row):
        return {"run": {"budget": "0s", "evaluations": row["tuned"], "starts": ["scratch"]}, "input": {},
                "policy": {"method": values["policy"]["method"], "preset": "tuned", **row.get("tuned_policy", {})}}

    def execute(self, bench, share=1.0):
        with tempfile.TemporaryDirectory(prefix="emplace-papers-") as folder:
            return self.execute_in(bench, pathlib.Path(folder), share)

    def execute_in(self, bench, folder, share):
        values = bench.with_inputs(self.values, self.devices, graph=str(bench.graph_path(self.graph)))
        if share < 1:
            for key in ("evaluations", "episodes"):
                if values["run"].get(key):
                    values["run"][key] = max(PILOT_EPISODES, math.ceil(values["run"][key] * share))
        result, core_s = bench.run_config(values, folder, self.seed)
        database = folder / "run" / "run.db"
        found = result or {}
        return {"best_s": found.get("best_step_time_s"), "core_s": round(core_s, 2), **progress(database),
                **(confidence(found) if found else {})}

    def estimate(self, bench):
        """Two pilots, one of them longer: their difference leaves out what a start costs."""
        first, second = (self.execute(bench, share) for share in (PILOT_SHARE, 2 * PILOT_SHARE))
        more = second["placements"] - first["placements"]
        total = self.values["run"].get("evaluations") or \
            self.values["run"]["episodes"] * first["placements"] / max(first["updates"] * self.batch(), 1)
        if more <= 0:
            return first["core_s"] * total / max(first["placements"], 1)
        return first["core_s"] + max(second["core_s"] - first["core_s"], 0) * (total - first["placements"]) / more

    def batch(self):
        return self.values.get("pipeline", {}).get("batch_episodes", 1)


def progress(database):
    """Numbers of a run's log: placements, updates, seconds, valid placements, every new best as [number of
    placements, seconds since the first, step time], the mean step time of BINS equal parts (null where nothing was
    valid)."""
    with sqlite3.connect(database) as db:
        logged = db.execute("SELECT valid, step_time_s, wall_ns FROM measurements JOIN episodes USING (episode) "
                            "ORDER BY seq, number").fetchall()
        updates = db.execute("SELECT count(*) FROM updates").fetchone()[0]
    start, bests = logged[0][2] if logged else 0, []
    for number, (valid, step_time_s, at) in enumerate(logged, 1):
        if valid and (not bests or step_time_s < bests[-1][2]):
            bests.append([number, round((at - start) / 1e9, 2), step_time_s])
    width = max(1, math.ceil(len(logged) / BINS))
    means = [mean([row[1] for row in logged[first:first + width] if row[0]])
             for first in range(0, len(logged), width)]
    return {"placements": len(logged), "updates": updates, "valid": sum(1 for row in logged if row[0]),
            "wall_s": round((logged[-1][2] - start) / 1e9, 1) if logged else 0, "bests": bests, "means": means}


def mean(values):
    """The mean to five digits; None of nothing."""
    return float("%.5g" % (sum(values) / len(values))) if values else None


class OrdersRun(Run):
    """A policy learned in fixed orders of the groups, and its likeliest placements in unseen ones."""

    def __init__(self, plan, row, seed):
        self.learned = LearnedRun(plan, row, "paper", seed)
        self.name, self.seed, self.unseen = row["name"], seed, row["unseen"]
        self.setup = digest([self.learned.setup, self.unseen])

    def execute(self, bench):
        with tempfile.TemporaryDirectory(prefix="emplace-papers-") as scratch:
            values = self.learned.execute_in(bench, pathlib.Path(scratch), 1)
            graph, policy = bench.graph_path(self.learned.graph), os.path.join(scratch, "run")
            values["unseen_s"] = [bench.placed(["--policy", policy, "--unseen-order", str(order)], graph,
                                               self.learned.devices, self.seed) for order in range(self.unseen)]
        return values

    def estimate(self, bench):
        return self.learned.estimate(bench)


class Baselines(Run):
    """The simple methods and the bound of a graph on a machine; one without a CPU gets one for `single-cpu`."""

    seed = 1

    def __init__(self, plan, graph, devices):
        self.graph, self.devices, self.name = graph, devices, "baselines/%s/%s" % (graph, devices)
        self.setup = digest([plan.graphs[graph], plan.machine(devices), BASELINES, ONE_CPU])

    def execute(self, bench):
        graph, devices, methods, core_s = bench.graph_path(self.graph), bench.device_file(self.devices), {}, 0
        with tempfile.TemporaryDirectory(prefix="emplace-papers-") as scratch:
            found, core_s = bench.compare(graph, devices, BASELINES, self.seed)
            methods = {m["method"]: m["step_time_s"] for m in found["methods"]}
            if not any(each["name"].startswith("cpu") for each in bench.plan.machine(self.devices)["device"]):
                with_cpu = pathlib.Path(scratch) / "devices.toml"
                with_cpu.write_text(devices.read_text() + "\n" + ONE_CPU)
                alone, more_s = bench.compare(graph, with_cpu, ["single-cpu"], self.seed)
                methods["single-cpu"], core_s = alone["methods"][0]["step_time_s"], core_s + more_s
        return {"bound_s": found["lower_bound_s"], "core_s": round(core_s, 2), "methods": methods}


# --- Running it -------------------------------------------------------------------------------------------------------


class Bench:
    """The program, its inputs, and the file of results. Thread: any."""

    def __init__(self, args, plan):
        self.args, self.plan, self.lock = args, plan, threading.Lock()
        self.results = Rows(args.results, row_key)
        self.commit = commit_of_tree()

    def graph_path(self, name):
        """The file of a graph, or the folder of a family; generates what is missing."""
        folder = pathlib.Path(self.args.graphs)
        options = shlex.split(self.plan.graphs[name])
        target = folder / name if "--count" in options else folder / (name + ".json.gz")
        with self.lock:
            if not target.exists():
                folder.mkdir(parents=True, exist_ok=True)
                # It has a temporary name until it is complete.
                part = folder / ("part-" + target.name)
                run_program(self.args.program, ["generate", *options, "-o", str(part)])
                part.replace(target)
        return target

    def device_file(self, name):
        return self.plan.configs / "devices" / (name + ".toml")

    def with_inputs(self, values, devices, **graphs):
        """A copy of a config's values with this machine's files, without heuristics: Baselines has those."""
        values = json.loads(json.dumps(values))
        values["run"].pop("seed", None)  # An option of the command.
        values["input"] = {**graphs, "devices": str(self.device_file(devices))}
        values.setdefault("compare", {})["methods"] = []
        return values

    def run_config(self, values, folder, seed, name="run"):
        """`emplace run`: its result (None: nothing feasible) and its core-seconds."""
        path = folder / (name + ".toml")
        path.write_text(to_toml(values))
        return run_measured(self.args.program, ["run", str(path), "--run-dir", str(folder / name), "--seed", str(seed)],
                            allowed=(0, 3))

    def place(self, how, graph, devices, seed):
        """The answer of `emplace place`; None if nothing fits."""
        command = ["place", str(graph), "-d", str(self.device_file(devices)), *how, "--seed", str(seed)]
        return run_program(self.args.program, command, allowed=(0, 3))

    def placed(self, how, graph, devices, seed):
        """Step time of one placement; None if it does not fit."""
        found = self.place(how, graph, devices, seed)
        return found and found["measured"]["step_time_s"]

    def evaluated(self, graph, devices, placement):
        """Step time of a placement file by our simulator."""
        found = run_program(self.args.program, ["evaluate", str(graph), "-d", str(self.device_file(devices)), placement])
        return found["step_time_s"]

    def compare(self, graph, devices, methods, seed):
        """The table of `emplace compare` for a device file, and its core-seconds."""
        return run_measured(self.args.program, ["compare", str(graph), "-d", str(devices), "-m", ",".join(methods),
                                                "--seed", str(seed)], allowed=(0, 3))

    def missing(self):
        """The runs of the selected stages that have no result yet. Each once."""
        only, seen = re.compile(self.args.only), set()
        for stage in [self.args.stage] if self.args.stage else ["A", "B"]:
            runs = list(self.plan.runs(stage))
            places = {(run.graph, run.devices): None for run in runs if isinstance(run, LearnedRun)}
            for run in [Baselines(self.plan, *place) for place in places] + runs:
                if run.key in seen or not only.search("%s/%d" % run.key):
                    continue
                seen.add(run.key)
                if not self.is_known(run):
                    yield run

    def is_known(self, run):
        """True if there is a result of today's setup, or an estimate above today's limit."""
        known = self.results.rows.get(run.key, {"setup": None})
        if self.args.entropy and isinstance(run, LearnedRun) and "best_s" in known and "entropy" not in known:
            return False
        return known["setup"] == run.setup and known.get("estimated_core_s", math.inf) > self.args.most * 60

    def core_seconds(self, run):
        """Estimated cost of a run: that of another seed, else of a pilot."""
        same = [row for row in self.results.rows.values() if row["run"] == run.name and row["setup"] == run.setup]
        return max((row.get("core_s") or row["estimated_core_s"] / run.seeds for row in same), default=None) or \
            run.estimate(self)

    def is_too_long(self, run, estimated):
        return estimated * run.seeds > self.args.most * 60

    def row(self, run):
        """The line of a run; of one that takes too long, with the hours instead of a result."""
        estimated = self.core_seconds(run)
        long = self.is_too_long(run, estimated)
        values = {"estimated_core_s": round(estimated * run.seeds, 3)} if long else run.execute(self)
        return {"run": run.name, "seed": run.seed, "setup": run.setup, "commit": self.commit, **values}


def commit_of_tree():
    """The commit of the working tree; with a plus sign if sources differ from it."""
    git = lambda *words: subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True).stdout.strip()
    changed = git("status", "--porcelain", "--", ":!docs", ":!bench", ":!configs")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def to_toml(values, prefix=""):
    """The text of a config. JSON's strings, numbers, booleans and arrays are TOML's."""
    lines = ["%s = %s" % (key, json.dumps(value)) for key, value in values.items() if not isinstance(value, dict)]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += ["", "[%s%s]" % (prefix, key), to_toml(value, prefix + key + ".")]
    return "\n".join(lines) + "\n"


def shown(row):
    if "estimated_core_s" in row:
        return "not run, %.1f h" % (row["estimated_core_s"] / 3600)
    best = "%.4g s" % row["best_s"] if isinstance(row.get("best_s"), float) else "done"
    return "%s, %.0f core-s" % (best, row["core_s"])


def do_run(bench):
    """Runs what is missing, args.jobs at a time; the exit status."""
    jobs = [("%s/%d" % run.key, functools.partial(bench.row, run)) for run in bench.missing()]
    return finish(run_jobs(bench.results.add, jobs, shown, bench.args.jobs, bench.args.minutes), "runs")


def do_cost(bench):
    """Prints the estimated cost of what is missing."""
    total = 0
    for run in bench.missing():
        seconds = bench.core_seconds(run)
        long = bench.is_too_long(run, seconds)
        total += 0 if long else seconds
        print("%-50s %d %8.1f core-min%s" % (run.name, run.seed, seconds / 60, "  not run" if long else ""))
    print("%.1f core-hours" % (total / 3600))
    return 0


def main():
    args = words()

    def run():
        plan = Plan(args.configs)
        if args.command == "page":
            papers_page.write(plan, Rows(args.results, row_key).rows, args.page, not args.no_pictures)
            return 0
        return (do_cost if args.command == "cost" else do_run)(Bench(args, plan))
    return exit_status(run)


if __name__ == "__main__":
    sys.exit(main())

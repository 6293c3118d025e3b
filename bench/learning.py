#!/usr/bin/env python3
"""Step times that each method reaches on each graph and machine, as one resumable job.

usage: bench/learning.py --graphs DIR --out ROWS.jsonl [options]

Runs `emplace compare` and `emplace run` for every graph, machine, method and seed of the table. Appends each finished
row to ROWS.jsonl (one JSON object per line), skips existing rows, and prints the Markdown table at the end. The job can
be stopped at any time; the same command continues it.

Machines: one Haswell CPU and 2 or 4 K40s, with all their memory or with each GPU capped at 0.6 (of 2) or 0.4 (of 4) of
what one GPU needs for the whole graph.
Learned methods: METHOD or METHOD:PRESET (paper, tuned) starts from scratch. METHOD:PRESET:best-heuristic starts from the
best of the simple methods, as annealing does; that placement counts if nothing better is found.
Other methods: `anneal` and the simple methods come from `compare`; deterministic methods run with the first seed only.

  --short        3 graphs, capped memory only, one seed: half an hour with four learned methods of 60 s
  --only REGEX   run only rows whose name "GRAPH/MACHINE/METHOD/SEED" matches
  --table        print the tables of ROWS.jsonl and run nothing
  --reach METHOD with --table: the progress of each learned row by number of evaluations, and the evaluations it took to
                 reach METHOD's best for the same graph, machine and seed
"""
import functools
import json
import os
import re
import sqlite3
import statistics
import sys
import tempfile

from tables import Rows, exit_status, find_graph, finish, markdown, parser_of, run_jobs, run_program, write_machine

GRAPHS = ["nmt-2layer-bs64", "nmt-4layer-bs64", "rnnlm-bs64", "nasnet_a_cifar-bs32", "inception_v3-bs1",
          "inception_v3-bs32"]
SHORT_GRAPHS = ["nmt-2layer-bs64", "inception_v3-bs32", "nasnet_a_cifar-bs32"]
# Columns: name, GPUs, share of the one-device peak that each GPU may use (None: all memory of a K40).
MACHINES = [("2gpu-full", 2, None), ("2gpu-0.6x", 2, 0.6), ("4gpu-full", 4, None), ("4gpu-0.4x", 4, 0.4)]
FIXED = ["single-cpu", "single-gpu", "round-robin", "contiguous", "expert"]  # Deterministic methods.
SEEDED = ["random", "anneal"]
SIMPLE = FIXED + ["random", "scotch", "mincut", "metis", "m-topo", "m-etf", "m-sct", "heft"]  # Start placements of annealing.
LEARNED = ["hierarchical:tuned", "colocrl:tuned", "spotlight:tuned", "placeto:tuned"]


def words():
    parser = parser_of(__doc__)
    parser.add_argument("--graphs", help="folder with the graph files")
    parser.add_argument("--learned", default=",".join(LEARNED), help="comma-separated list of METHOD[:PRESET[:START]]")
    parser.add_argument("--methods", default=",".join(FIXED + SEEDED), help="comma-separated methods of `emplace compare`")
    parser.add_argument("--names", help="comma-separated graphs instead of those of the table")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--budget", default="60s", help="wall time of one learned row; 0s: no limit")
    parser.add_argument("--evaluations", type=int, default=0,
                        help="placements measured in one learned or annealed row; 0: no limit")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="setting for every `emplace run`")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--reach", default="", metavar="METHOD")
    args = parser.parse_args()
    if not args.table and not args.graphs:
        parser.error("--graphs is needed to run anything")
    return args


def config_file(path, graph, devices, method, preset, start, args):
    quoted = [json.dumps(os.path.abspath(p)) for p in (graph, devices)]
    with open(path, "w") as f:
        f.write("[run]\nbudget = %s\nevaluations = %d\nstarts = [%s]\n\n[input]\ngraph = %s\n"
                "devices = %s\n\n[policy]\nmethod = %s\npreset = %s\n\n[compare]\nmethods = %s\n"
                % (json.dumps(args.budget), args.evaluations, json.dumps(start), quoted[0], quoted[1], json.dumps(method),
                   json.dumps(preset), json.dumps(SIMPLE if start == "best-heuristic" else [])))
    return path


def spent_by(args, wall=None):
    """The limits of a row, as text."""
    limits = ["%d evaluations" % args.evaluations] if args.evaluations else []
    wall = args.budget if wall is None else wall
    return " or ".join(limits if re.fullmatch(r"0\D*|", wall) else limits + [wall])


def row_key(row):
    return row["graph"], row["machine"], row["method"], row["seed"], row.get("budget", "")


def compared(args, place, method, seed):
    """One row of `emplace compare`. Exit status 3 is a result: no feasible placement found."""
    command = ["compare", place["path"], "-d", place["devices"], "-m", method, "--seed", str(seed)]
    if method == "anneal":
        command += ["--evaluations", str(args.evaluations)]
    table = run_program(args.program, command, allowed=(0, 3))
    row = table["methods"][0]
    return {"step_time_s": row["step_time_s"], "evaluations": row["evaluations"], "wall_s": row["wall_s"],
            "note": row.get("reason", "")}


def learned(args, place, method, seed):
    """One row of `emplace run`."""
    with tempfile.TemporaryDirectory(prefix="emplace-bench-") as folder:
        return learned_in(args, place, method, seed, folder)


def learned_in(args, place, method, seed, folder):
    name, preset, start = (method.split(":") + ["", ""])[:3]
    config = config_file(os.path.join(folder, "run.toml"), place["path"], place["devices"], name, preset or "paper",
                         start or "scratch", args)
    command = ["run", config, "--run-dir", os.path.join(folder, "run"), "--seed", str(seed)]
    for setting in args.set:
        command += ["--set", setting]
    result = run_program(args.program, command, allowed=(0, 3))
    if result is None:
        return {"step_time_s": None, "evaluations": None, "wall_s": None, "note": "no feasible placement found"}
    known = [result["best_step_time_s"], *(result["baseline_step_time_s"].values())]
    best = min((s for s in known if s), default=None)
    return {"step_time_s": best, "evaluations": result["measurements"], "wall_s": result["wall_s"],
            "updates": result["updates"], "start": result["starts"][0]["start"],
            "note": "" if best else "no feasible placement found",
            "curve": curve(os.path.join(folder, "run", "run.db"))}


def curve(run_db):
    """[evaluations, step time in s] of every placement that improved on all before it, in log order."""
    points = []
    with sqlite3.connect(run_db) as db:
        logged = db.execute("SELECT valid, step_time_s FROM measurements JOIN episodes USING (episode) ORDER BY seq, number")
        for number, (valid, step_time_s) in enumerate(logged, 1):
            if valid and (not points or step_time_s < points[-1][1]):
                points.append([number, step_time_s])
    return points


def prepare(args, graph, machine, gpus, share, folder, known):
    """The device file of a machine for a graph, and values that do not depend on the method."""
    path = find_graph(args.graphs, graph)
    if graph not in known:
        whole = write_machine(os.path.join(folder, "whole.toml"), 1)
        seen = run_program(args.program, ["inspect", path, "-d", whole])
        known[graph] = seen["devices"][1]["all_ops_peak_bytes"]
    cap = int(known[graph] * share) if share else None
    devices = write_machine(os.path.join(folder, machine + "-" + graph + ".toml"), gpus, memory_bytes=cap)
    bound = run_program(args.program, ["bound", path, "-d", devices])
    return {"path": path, "devices": devices, "gpu_memory_bytes": cap, "one_gpu_peak_bytes": known[graph],
            "bound_s": bound["lower_bound_s"] if "lower_bound_s" in bound else bound["seconds"]}


def work(args):
    """(graph, machine, GPUs, share, method, seed, is learned) in the order of execution."""
    graphs = args.names.split(",") if args.names else SHORT_GRAPHS if args.short else GRAPHS
    machines = [m for m in MACHINES if m[2]] if args.short else MACHINES
    seeds = [int(s) for s in args.seeds.split(",")][:1 if args.short else None]
    methods = [m for m in args.methods.split(",") if m]
    for graph in graphs:
        for machine, gpus, share in machines:
            for method in methods:
                for seed in seeds[:1] if method in FIXED else seeds:
                    yield graph, machine, gpus, share, method, seed, False
            for method in [m for m in args.learned.split(",") if m]:
                for seed in seeds:
                    yield graph, machine, gpus, share, method, seed, True


def do_all(args, rows):
    """Makes the rows that are missing; the number of failures."""
    only, known, places = re.compile(args.only), {}, {}
    version = run_program(args.program, ["version"]).get("version", "")

    def make(folder, graph, machine, gpus, share, method, seed, learns):
        budget = spent_by(args) if learns else spent_by(args, "") if method == "anneal" else ""
        if (graph, machine, method, seed, budget) in rows.rows:
            return None
        if (graph, machine) not in places:
            places[graph, machine] = prepare(args, graph, machine, gpus, share, folder, known)
        place = places[graph, machine]
        found = (learned if learns else compared)(args, place, method, seed)
        return {"graph": graph, "machine": machine, "method": method, "seed": seed, "budget": budget,
                **{key: place[key] for key in ("gpu_memory_bytes", "one_gpu_peak_bytes", "bound_s")}, **found,
                "settings": args.set if learns else [], "version": version}

    def shown(row):
        best = "%.1f ms" % (row["step_time_s"] * 1e3) if row["step_time_s"] else row["note"]
        return "%s, %s evaluations" % (best, row["evaluations"])

    with tempfile.TemporaryDirectory(prefix="emplace-bench-") as folder:
        items = [("%s/%s/%s/%d" % (item[0], item[1], item[4], item[5]), functools.partial(make, folder, *item))
                 for item in work(args)]
        return run_jobs(rows.add, [item for item in items if only.search(item[0])], shown)


def cell(rows):
    """Best; also the median with several seeds, and the number of feasible rows if not all are."""
    times = sorted(r["step_time_s"] for r in rows if r["step_time_s"])
    if not times:
        return "–"
    text = "%.1f" % (times[0] * 1e3)
    if len(times) > 1:
        text += " (%.1f)" % (statistics.median(times) * 1e3)
    return text + (" %d/%d" % (len(times), len(rows)) if len(times) < len(rows) else "")


def table(rows):
    """Two Markdown tables: step times, and evaluations with wall times."""
    if not rows:
        return "no rows yet"
    first_seen = lambda values: list(dict.fromkeys(values))
    places = first_seen((r["graph"], r["machine"]) for r in rows)
    order = {m: k for k, m in enumerate(FIXED + SEEDED)}
    methods = sorted(first_seen((r["method"], r.get("budget", "")) for r in rows),
                     key=lambda m: (order.get(m[0], len(order)), m))
    title = [m + (" " + b if b else "") for m, b in methods]
    steps, costs = [], []
    for graph, machine in places:
        mine = [r for r in rows if (r["graph"], r["machine"]) == (graph, machine)]
        by_method = [[r for r in mine if (r["method"], r.get("budget", "")) == m] for m in methods]
        bests = [min((r["step_time_s"] for r in of if r["step_time_s"]), default=None) for of in by_method]
        best = min((b for b in bests if b), default=None)
        cells = ["**%s**" % cell(of) if b and b == best else cell(of) if of else ""
                 for of, b in zip(by_method, bests)]
        steps.append([graph, machine, "%.1f" % (mine[0]["bound_s"] * 1e3), *cells])
        spent = []
        for of in by_method:
            done = [r for r in of if r["evaluations"] is not None]
            spent.append("%d / %.1f s" % (statistics.mean(r["evaluations"] for r in done),
                                          statistics.mean(r["wall_s"] for r in done)) if done else "")
        costs.append([graph, machine, *spent])
    return ("Step time [ms], best (median) of the seeds; – no feasible placement:\n\n%s\n"
            "Evaluations / wall time, means over the seeds:\n\n%s"
            % (markdown(["graph", "machine", "bound", *title], steps, 2), markdown(["graph", "machine", *title], costs, 2)))


CHECKPOINTS = [1000, 3000, 6000, 12000]  # Evaluations.


def reach_table(rows, reference):
    """Markdown: best step time so far of each learned row, and when it reached the final best of `reference`."""
    table, head = [], ["graph", "machine", "seed", "method", *CHECKPOINTS, "best (at)", "reaches " + reference]
    curves = [r for r in rows if r.get("curve")]
    goals = {(r["graph"], r["machine"], r["seed"]): r for r in curves if r["method"] == reference}
    for r in sorted(curves, key=lambda r: (r["graph"], r["machine"], r["seed"], r["method"] != reference, r["method"])):
        cells = []
        for n in CHECKPOINTS:
            seen = [seconds for number, seconds in r["curve"] if number <= n]
            cells.append("%.1f" % (seen[-1] * 1e3) if seen and n <= r["evaluations"] + n // 50 else "–")
        number, seconds = r["curve"][-1]
        goal = goals.get((r["graph"], r["machine"], r["seed"]))
        reached = "–"
        if goal is r:
            reached = "after %d" % number
        elif goal:
            there = next((n for n, s in r["curve"] if s <= goal["curve"][-1][1]), None)
            reached = "after %d, %.1f x" % (there, there / goal["curve"][-1][0]) if there else "not in %d" % r["evaluations"]
        table.append([r["graph"], r["machine"], r["seed"], r["method"], *cells, "%.1f (%d)" % (seconds * 1e3, number), reached])
    return "Best step time so far [ms]:\n\n" + markdown(list(map(str, head)), table, 4)


def main():
    args = words()

    def run():
        rows = Rows(args.out, row_key)
        failures = 0 if args.table else do_all(args, rows)
        done = list(rows.rows.values())
        print(reach_table(done, args.reach) if args.reach else table(done))
        return finish(failures, "rows")
    return exit_status(run)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Quality on 30 held-out rows of graph and machine, as one resumable job that writes docs/results/held_out.md.

usage: bench/held_out.py measure --what WHAT[,WHAT…] [--budget TIME[,TIME…]] [options]
       bench/held_out.py references --budget 120s --threads 2 [options]
       bench/held_out.py page [options]
       bench/held_out.py choose [options]

The rows are configs/pretrained/held_out.jsonl: worlds of families and machines that no world for training has
(docs/guide/worlds.md), each with a reference: the fastest step time known, the method of it, and the budget, threads and
command of the search that made it first. Any command here that finds a faster placement lowers the reference.

measure     WHAT is `heuristics` (every fast method once), `auto`, `single-gpu`, or any method of `emplace place`, such as
            `pretrained` or `anneal`. Each runs on each row, with each budget, and is a line of --out.
references  searches every row by auto for the budget, unless its reference had as much time before
page        writes the page from --out and the rows; ρ is a step time over the reference of its row
choose      draws the rows again, without references: the rule is choose() below

  --out FILE      results; finished ones are skipped (default: docs/results/held_out.jsonl)
  --rows FILE     the rows (default: configs/pretrained/held_out.jsonl)
  --worlds DIR    folder of the rows' graph files; made as needed (default: build/held_out)
  --threads N     threads of each search (default: 1)      --seed N    seed of each search (default: 1)
  --only REGEX    run matching rows only                   --label TEXT  a name for this version, kept with each result
"""
import contextlib
import fcntl
import functools
import hashlib
import json
import math
import os
import re
import sys

from tables import Rows, exit_status, finish, mean, parser_of, run_jobs, run_program

SEED, NUMBERS = 28, 400
QUOTA = {"tight": 11, "uneven": 8, "loose": 8, "large": 3}
LARGE, MOST_PER_FAMILY, MOST_TRIVIAL = 5000, 5, 4
EXACT = 1 + 1e-9


def arguments():
    parser = parser_of(__doc__, out="docs/results/held_out.jsonl")
    parser.add_argument("command", choices=["measure", "references", "page", "choose"])
    parser.add_argument("--what", default="heuristics,auto")
    parser.add_argument("--budget", default="1s,5s")
    parser.add_argument("--rows", default="configs/pretrained/held_out.jsonl")
    parser.add_argument("--worlds", default="build/held_out")
    parser.add_argument("--page", default="docs/results/held_out.md")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--label", default="")
    return parser.parse_args()


# ---- Rows and references ----

def read_rows(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def write_rows(path, rows):
    """The file appears whole or not at all."""
    with open(path + ".partial", "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    os.replace(path + ".partial", path)


@contextlib.contextmanager
def changing(path):
    """The rows, which are written at the end; one job at a time."""
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        rows = read_rows(path)
        yield rows
        write_rows(path, rows)
    finally:
        os.close(folder)


def offer(args, name, step_time_s, how):
    """Lowers the reference of a row, if it is above this time. The budget stays that of the search for it."""
    with changing(args.rows) as rows:
        row = next(row for row in rows if row["row"] == name)
        before = row.get("reference")
        if before and step_time_s * EXACT >= before["step_time_s"]:
            return
        searched = {key: before[key] for key in ("budget", "threads")} if before else {}
        row["reference"] = {"step_time_s": step_time_s, **how, **searched}
    if before:
        print("%s: reference lowered by %.2f %%" % (name, 100 * (1 - step_time_s / before["step_time_s"])), file=sys.stderr)


def graph_of(args, row):
    """The row's graph file. Exits if the generator does not make the graph and machine of the list any more."""
    os.makedirs(args.worlds, exist_ok=True)
    path = os.path.join(args.worlds, row["row"] + ".json.gz")
    kept = path + ".sha256"
    if not os.path.exists(kept):
        made = run_program(args.program, ["generate", "worlds", "--held-out", "--seed", str(row["seed"]), "--index",
                                          str(row["number"]), "-o", path])
        for key in ("graph_sha256", "devices_sha256"):
            if made[key] != row[key]:
                sys.exit("error: %s: %s is not that of the list; the generator has changed" % (row["row"], key))
        with open(path, "rb") as file, open(kept, "w") as digest:
            digest.write(hashlib.sha256(file.read()).hexdigest())
    with open(path, "rb") as file, open(kept) as digest:
        if hashlib.sha256(file.read()).hexdigest() != digest.read():
            sys.exit("error: %s: is damaged; remove it" % path)
    return path


def wanted(args):
    return [row for row in read_rows(args.rows) if re.search(args.only, row["row"])]


def seconds(text):
    value = re.fullmatch(r"([0-9.]+)(ms|s|m|h)", text) or sys.exit("error: --budget: write it like 5s or 300ms")
    return float(value[1]) * {"ms": 1e-3, "s": 1, "m": 60, "h": 3600}[value[2]]


def choose(args):
    """Worlds of the held-out seed in order, up to the quota of large graphs, and of each class of memory for the others, and
    up to a number of each family. A world in which no heuristic gains 2 % over the best single device is trivial, and few
    of them are chosen."""
    chosen, quota, families, trivial = [], dict(QUOTA), {}, 0
    for number in range(NUMBERS):
        if not any(quota.values()):
            break
        path = os.path.join(args.worlds, "candidate.json.gz")
        os.makedirs(args.worlds, exist_ok=True)
        made = run_program(args.program, ["generate", "worlds", "--held-out", "--seed", str(SEED), "--index", str(number),
                                          "-o", path])
        part = "large" if made["ops"] > LARGE else made["memory"]
        if not quota[part] or families.get(made["family"], 0) >= MOST_PER_FAMILY:
            continue
        methods = fast_methods(args, path)
        single = min((methods[m]["step_time_s"] for m in ("single-gpu", "single-cpu") if m in methods), default=math.inf)
        if single <= 1.02 * min(m["step_time_s"] for m in methods.values()):
            trivial += 1
            if trivial > MOST_TRIVIAL:
                continue
        quota[part] -= 1
        families[made["family"]] = families.get(made["family"], 0) + 1
        keep = ("number", "graph_sha256", "devices_sha256", "family", "training", "ops", "devices", "kinds", "memory")
        chosen.append({"row": "%03d-%s" % (number, made["family"]), "seed": SEED, **{key: made[key] for key in keep}})
    write_rows(args.rows, chosen)
    print("%d rows: %s" % (len(chosen), ", ".join(row["row"] for row in chosen)), file=sys.stderr)


# ---- Measuring ----

def fast_methods(args, graph):
    """method -> {step_time_s, wall_s} of every fast method whose placement fits."""
    table = run_program(args.program, ["compare", graph, "--seed", str(args.seed)], (0, 3))
    return {m["method"]: {"step_time_s": m["step_time_s"], "wall_s": m["wall_s"]} for m in table["methods"]
            if m["valid"] and not m.get("transforms_graph")}


def place(args, graph, method, budget, threads):
    """The answer of a method; without a budget where it is no search."""
    words = ["place", graph, "--method", method, "--seed", str(args.seed)]
    words += ["--threads", str(threads)] if method == "auto" else []
    return run_program(args.program, words + (["--budget", budget] if budget else []), (0, 3))


def measured(args, row, what, budget):
    """One line of results."""
    made = {"row": row["row"], "what": what, "budget": budget, "threads": args.threads, "seed": args.seed, "label": args.label}
    graph = graph_of(args, row)
    if what == "heuristics":
        made["methods"] = fast_methods(args, graph)
        for method, found in made["methods"].items():
            offer(args, row["row"], found["step_time_s"], {"found_by": method, "budget": "0s", "threads": 1})
        return made
    placed = place(args, graph, what, budget, args.threads)
    valid = placed is not None and placed["measured"]["valid"]
    made.update(step_time_s=placed["measured"]["step_time_s"] if valid else None, wall_s=placed and placed["wall_s"],
                found_by=placed and placed["method"], bound_s=placed and placed["lower_bound_s"],
                evaluations=placed and placed["evaluations"])
    if valid:
        offer(args, row["row"], made["step_time_s"], {"found_by": placed["method"], "budget": budget or "0s",
                                                      "threads": args.threads})
    return made


def key_of(row):
    return row["row"], row["what"], row["budget"], row["threads"], row["seed"], row["label"]


def measure(args):
    results, jobs = Rows(args.out, key_of), []
    for what in args.what.split(","):
        for budget in [""] if what == "heuristics" else args.budget.split(","):
            for row in wanted(args):
                if (row["row"], what, budget, args.threads, args.seed, args.label) not in results.rows:
                    jobs.append((row["row"], functools.partial(measured, args, row, what, budget)))
    return finish(run_jobs(results.add, jobs, lambda row: "%s %s" % (row["what"], row["budget"])), "measurements")


def search_reference(args, row):
    """Searches a row for the budget; the reference has had this time then, whether or not it is faster now."""
    placed = place(args, graph_of(args, row), "auto", args.budget, args.threads)
    if placed and placed["measured"]["valid"]:
        offer(args, row["row"], placed["measured"]["step_time_s"],
              {"found_by": placed["method"], "budget": args.budget, "threads": args.threads})
    with changing(args.rows) as rows:
        for one in rows:
            if one["row"] == row["row"] and one.get("reference"):
                one["reference"].update(budget=args.budget, threads=args.threads)
    return row


def references(args):
    had = lambda row: seconds(row["reference"]["budget"]) * row["reference"]["threads"] if row.get("reference") else -1
    jobs = [(row["row"], functools.partial(search_reference, args, row)) for row in wanted(args)
            if had(row) < seconds(args.budget) * args.threads]
    return finish(run_jobs(lambda row: None, jobs, lambda row: "reference"), "references")


# ---- Page ----

def rho_line(name, ratios, times, rows, beside=""):
    """A row of the table of methods. `ratios` are those of rows where the method's placement fits."""
    middle = sorted(times)[len(times) // 2] if times else float("nan")
    return "| %s | %.3f | %.3f | %d | %s | %s |" % (
        name, mean(ratios), max(ratios, default=float("nan")), len(rows) - len(ratios),
        "%.3f" % middle if middle < 0.1 else "%.2f" % middle, beside)


def page(args):
    rows = {row["row"]: row for row in read_rows(args.rows) if row.get("reference")}
    results = [r for r in Rows(args.out, key_of).rows.values() if r["row"] in rows]
    reference = {name: row["reference"]["step_time_s"] for name, row in rows.items()}
    heuristics = {r["row"]: r["methods"] for r in results if r["what"] == "heuristics"}
    best = {name: min((m["step_time_s"] for m in methods.values()), default=math.inf) for name, methods in heuristics.items()}
    lines = ["| method | ρ | worst ρ | does not fit | time [s] | as fast as the best heuristic |", "|---|--:|--:|--:|--:|--:|"]
    names = sorted({method for methods in heuristics.values() for method in methods})
    table = []
    for name in names:
        found = {row: methods[name] for row, methods in heuristics.items() if name in methods}
        ratios = [m["step_time_s"] / reference[row] for row, m in found.items()]
        table.append((len(heuristics) - len(ratios), mean(ratios), rho_line(name, ratios, [m["wall_s"] for m in found.values()], heuristics)))
    lines += [line for _, _, line in sorted(table)]
    if heuristics:
        ratios = [best[row] / reference[row] for row in best if best[row] < math.inf]
        times = [sum(m["wall_s"] for m in methods.values()) for methods in heuristics.values()]
        lines.append(rho_line("best of all these", ratios, times, heuristics))
    searches = sorted({(r["label"], r["what"], seconds(r["budget"]) if r["budget"] else 0, r["budget"], r["threads"], r["seed"])
                       for r in results if r["what"] != "heuristics"})
    curve = {}
    for label, what, at, budget, threads, seed in searches:
        some = [r for r in results if (r["label"], r["what"], r["budget"], r["threads"], r["seed"]) == (label, what, budget, threads, seed)]
        valid = [r for r in some if r["step_time_s"]]
        ratios = [r["step_time_s"] / reference[r["row"]] for r in valid]
        both = [r for r in some if r["row"] in best]
        holds = sum(bool(r["step_time_s"]) and r["step_time_s"] <= best[r["row"]] * EXACT for r in both)
        text = " ".join(filter(None, ["**%s**" % what, budget, "%d threads" % threads if threads > 1 else "", label]))
        lines.append(rho_line(text, ratios, [r["wall_s"] for r in valid], some, "%d of %d" % (holds, len(both)) if both else "–"))
        curve.setdefault((label, what, threads), []).append((at, mean(ratios), len(ratios)))
    text = [TEXT % {"rows": len(rows)}, "## Methods", *lines, ""]
    if any(len(points) > 1 for points in curve.values()):
        text += ["## Over time", "ρ by budget [s].", ""]
        budgets = sorted({at for points in curve.values() for at, _, _ in points})
        text += ["| search | " + " | ".join("%g" % at for at in budgets) + " |", "|---|" + "--:|" * len(budgets)]
        for (label, what, threads), points in sorted(curve.items()):
            by_budget = {at: "%.3f" % value for at, value, _ in points}
            text.append("| %s | %s |" % (" ".join(filter(None, [what, label])), " | ".join(by_budget.get(at, "–") for at in budgets)))
        text.append("")
    made = {}
    for row in rows.values():
        how = "%s, %d thread%s" % (row["reference"]["budget"], row["reference"]["threads"], "s"[:row["reference"]["threads"] > 1])
        made[how] = made.get(how, 0) + 1
    text += ["## Rows", "References after a search by auto: %s." % "; ".join("%d rows with %s" % (n, how) for how, n in sorted(made.items())), "",
             "| row | ops | training | devices | kinds | memory | reference [ms] | found by | best heuristic |", "|---|--:|:-:|--:|--:|---|--:|---|--:|"]
    for name, row in rows.items():
        text.append("| %s | %d | %s | %d | %d | %s | %.3f | %s | %s |" % (
            name, row["ops"], "x" if row["training"] else "", row["devices"], row["kinds"], row["memory"], reference[name] * 1e3,
            row["reference"]["found_by"], "%.3f" % (best[name] / reference[name]) if best.get(name, math.inf) < math.inf else "–"))
    with open(args.page, "w") as file:
        file.write("\n".join(text) + "\n")


TEXT = """# Held-out rows

%(rows)d worlds (`docs/guide/worlds.md`) of graph families and machines that no world for training has.
`bench/held_out.py` chose them by a rule, measured and wrote this page; results are in `docs/results/held_out.jsonl`.

- ρ: step time over the reference of the row, geometric mean. The reference is the fastest step time that is known:
  `configs/pretrained/held_out.jsonl` has it with the budget and threads of its search. Any command of
  `bench/held_out.py` that finds a faster placement lowers it, so ρ of older results grows.
- does not fit: rows where the method found no placement that fits in memory. They are not in ρ.
- time: median over rows, without reading the graph. Searches ran on one thread unless stated, on a machine that ran
  other work at the same time: with the same budget an idle machine searches more.
- Costs are of version 1 (`docs/reference/measurement.md`, "Costs"): the machine of a world is a device file without
  `costs`.
"""


def main():
    args = arguments()
    command = {"measure": measure, "references": references, "page": page, "choose": choose}[args.command]
    return exit_status(lambda: command(args))


if __name__ == "__main__":
    sys.exit(main())

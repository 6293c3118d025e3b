#!/usr/bin/env python3
"""Placement quality of `auto`, as one resumable job that writes docs/results/quality.md.

usage: bench/quality.py --graphs DIR --workloads DIR --out ROWS.jsonl [options]

Machines table: ten training graphs on one Haswell CPU with 2, 4 or 8 K40s or 2 or 4 V100s over PCIe. Each GPU has all
its memory, or is capped at 0.6 (of 2), 0.4 (of 4) or 0.27 (of 8) of what one device needs for the whole graph. Runs every
heuristic by `emplace compare`, then `emplace place` (auto) for the budget.
Workloads table: the dnn-partitioning workloads under their cost models; auto on one core with three seeds, and
`contiguous`, compared with the best known values.
Appends finished rows to ROWS.jsonl and skips existing ones. The job can be stopped at any time.

  --budget 60s   time of each auto       --workload-budget 60s   time of each auto on workloads
  --only REGEX   run matching rows only  --threads N             threads of auto on machines; 0: all cores
  --page FILE    write the page          --table                 print the tables of ROWS.jsonl and run nothing
  --order        run every row twice in turn: auto, and auto with --order search
  --robust       run every row twice in turn: auto, and auto with --robust; both answers are simulated in 200 draws of 5 %
                 noise that neither search has seen
"""
import functools
import math
import os
import re
import statistics
import sys
import tempfile

from tables import (Failed, Rows, exit_status, find_graph, finish, markdown, mean, ms, parser_of, run_jobs, run_program,
                    write_machine)

GRAPHS = ["nmt-2layer-bs64", "nmt-4layer-bs64", "rnnlm-bs64", "nasnet_a_cifar-bs32", "inception_v3-bs1",
          "inception_v3-bs32", "resnet50-bs32", "googlenet-bs64", "bert_base-bs32-seq128",
          "transformer_base-bs64-seq40"]
MACHINES = [("k40", 2), ("k40", 4), ("k40", 8), ("v100", 2), ("v100", 4)]
CAPS = {2: 0.6, 4: 0.4, 8: 0.27}
RIVALS = ["scotch", "mincut", "metis", "expert", "m-etf"]
# File, best known value [ms] (latency: proven or best of all known; max-load: any split), and the exact contiguous optimum.
WORKLOADS = [
    ("latency-inputs/LayerGraphs/bert24_inference", "latency", 100.218500, None),
    ("latency-inputs/LayerGraphs/inceptionv3_inference", "latency", 1186.548058, None),
    ("latency-inputs/OperatorGraphs/bert_l-3_inference", "latency", 408.474408, None),
    ("latency-inputs/OperatorGraphs/resnet50_inference", "latency", 651.120759, None),
    ("throughput-inputs/LayerGraphs/bert24_inference", "max-load", 17.7147, 17.7899),
    ("throughput-inputs/LayerGraphs/bert24_training", "max-load", 39.8165, 41.7458),
    ("throughput-inputs/LayerGraphs/inceptionv3_inference", "max-load", 51.5519, 51.5519),
    ("throughput-inputs/LayerGraphs/inceptionv3_training", "max-load", 118.1134, 122.7616),
    ("throughput-inputs/OperatorGraphs/bert_l-3_inference", "max-load", 21.9084, 27.9186),
    ("throughput-inputs/OperatorGraphs/bert_l-3_training", "max-load", 54.2074, 65.3031),
    ("throughput-inputs/OperatorGraphs/resnet50_inference", "max-load", 124.3488, 124.3488),
    ("throughput-inputs/OperatorGraphs/resnet50_training", "max-load", 255.1944, 255.1944),
]
SEEDS = (1, 2, 3)


def arguments():
    parser = parser_of(__doc__)
    parser.add_argument("--graphs", help="folder with the training graphs")
    parser.add_argument("--workloads", help="folder with latency-inputs and throughput-inputs")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--workload-budget", default="60s")
    parser.add_argument("--threads", default="0")
    parser.add_argument("--page")
    for flag in ("--table", "--order", "--robust"):
        parser.add_argument(flag, action="store_true")
    return parser.parse_args()


def emplace(args, words):
    """The JSON object that a command prints; None if no placement is feasible. Raises Failed."""
    return run_program(args.program, words, allowed=(0, 3))


def write_devices(args, folder, graph, profile, gpus, tight):
    """The path of the device file of a row."""
    cap = None
    if tight:  # A share of what one device needs for the whole graph.
        one = write_machine(os.path.join(folder, "one.toml"), 1, memory_bytes=1 << 50)
        table = emplace(args, ["compare", graph, "-d", one, "-m", "single-gpu"])
        cap = int(table["methods"][0]["peak_memory_bytes"][1] * CAPS[gpus])
    return write_machine(os.path.join(folder, "devices.toml"), gpus, profile, cap)


def machine_jobs(args):
    """(row, make) of every machine row: auto beside the methods of `compare`, beside --order search, or beside --robust."""
    kind, suffix = next(((of, "/" + name) for name, of in (("order", order_row), ("robust", robust_row))
                         if getattr(args, name)), (machine_row, ""))

    def make(row, name, profile, gpus, tight):
        with tempfile.TemporaryDirectory() as folder:
            graph = find_graph(args.graphs, name)
            devices = write_devices(args, folder, graph, profile, gpus, tight)
            place = lambda *more: emplace(args, ["place", graph, "-d", devices, "--budget", args.budget, "--threads",
                                                 args.threads, *more])
            return {"row": row, "budget": args.budget, **kind(args, graph, devices, folder, place)}

    for name in GRAPHS:
        for profile, gpus in MACHINES:
            for tight in (True, False):
                row = "%s/%s x %d/%s%s" % (name, profile, gpus, "%gx" % CAPS[gpus] if tight else "full", suffix)
                yield row, functools.partial(make, row, name, profile, gpus, tight)


def robust_row(args, graph, devices, folder, place):
    """auto, then auto with --robust, for the same budget and on as many threads, and both under unseen noise."""
    made = {}
    for key, more in (("auto", []), ("robust", ["--robust"])):
        file = os.path.join(folder, key + ".json")
        placed = place("-o", file, *more)
        seen = placed and emplace(args, ["evaluate", graph, file, "-d", devices, "--jitter", "5%", "--draws", "200",
                                         "--seed", "77"])
        made[key] = placed and placed["measured"]["step_time_s"]
        made[key + "_p95"] = seen and seen["jitter"]["p95_s"]
        made[key + "_over"] = seen and seen["jitter"]["over_memory"]
        made[key + "_wall"] = placed and placed["wall_s"]
    return made


def order_row(args, graph, devices, folder, place):
    """auto, then auto with --order search, for the same budget and on as many threads."""
    placed = [place("--order", order) for order in ("issue", "search")]
    issue, search = [p and p["measured"]["step_time_s"] for p in placed]
    return {"auto": issue, "searched": search, "bound": next((p["lower_bound_s"] for p in placed if p), None),
            "order": placed[1] and placed[1]["order"], "found_by": placed[1] and placed[1]["method"]}


def machine_row(args, graph, devices, folder, place):
    table, placed = emplace(args, ["compare", graph, "-d", devices]), place()
    methods = {m["method"]: m["step_time_s"] for m in table["methods"] if m["valid"] and not m.get("transforms_graph")}
    return {"bound": table["lower_bound_s"], "methods": methods,
            "auto": placed and placed["measured"]["step_time_s"], "found_by": placed and placed["method"],
            "at": placed and placed["findings"][-1]["at_s"], "evaluations": placed and placed["evaluations"]}


def workload_jobs(args):
    def make(row, file, objective, best, contiguous, seed):
        path = os.path.join(args.workloads, file + ".json")
        placed = emplace(args, ["place", path, "--objective", objective, "--budget", args.workload_budget, "--threads", "1",
                                "--seed", str(seed)])
        found = {"row": row, "file": file, "objective": objective, "best": best, "budget": args.workload_budget,
                 "value": placed["objective_value"], "bound": placed["lower_bound_s"] * 1e3, "found_by": placed["method"],
                 "at": placed["findings"][-1]["at_s"], "evaluations": placed["evaluations"]}
        if contiguous and seed == SEEDS[0]:
            exact = emplace(args, ["place", path, "--objective", objective, "-m", "contiguous"])
            found.update(exact=contiguous, contiguous=exact["objective_value"], contiguous_s=exact["wall_s"])
        return found

    for workload in WORKLOADS:
        for seed in SEEDS:
            row = "%s/seed %d" % (workload[0], seed)
            yield row, functools.partial(make, row, *workload, seed)


def is_full(row):
    """True if the GPUs of the row have all their memory."""
    return row["row"].split("/")[2] == "full"


def machine_of(row):
    """Graph, and machine with memory, as the tables name them."""
    graph, machine, memory = row["row"].split("/")[:3]
    return graph, "%s, %s" % (" ".join(reversed(machine.split(" x "))), memory)


def machine_table(rows):
    """A table per graph."""
    head = ["machine", "bound", "1 CPU", *RIVALS, "best other", "**auto**", "after", "gain", "above"]
    tables, gains, worse = {}, {}, []
    for row in sorted(rows, key=lambda r: r["row"]):
        graph, machine = machine_of(row)
        cpu, auto = row["methods"].get("single-cpu"), row["auto"]
        rival = min(row["methods"].get(name, cpu or math.inf) for name in RIVALS)
        others = {k: v for k, v in row["methods"].items() if k not in RIVALS}
        other = min(others, key=others.get) if others else None
        gain = rival / auto if auto else float("nan")
        gains.setdefault(is_full(row), []).append(gain)
        if auto and min(row["methods"].values()) < auto * (1 - 1e-9):
            worse.append(row["row"])
        tables.setdefault(graph, []).append([
            machine, ms(row["bound"]), ms(cpu), *(ms(row["methods"].get(name)) for name in RIVALS),
            "%s %s" % (ms(others[other]), other) if other else "–", "**%s**" % ms(auto), "%.0f" % row["at"],
            "%.0f" % (100 * (gain - 1)), "%.0f" % (100 * (auto / row["bound"] - 1))])
    text = "\n".join("### %s\n\n%s" % (graph, markdown(head, lines)) for graph, lines in tables.items())
    text += "\n### Summary\n"
    for full, values in sorted(gains.items()):
        text += "- Geometric mean of the best of the five over auto, %s memory: **%.3f** (%d rows, smallest %.3f).\n" % (
            "full" if full else "tight", mean(values), len(values), min(values))
    text += "- Rows where a method of the tables beats auto: %s.\n" % (", ".join(worse) or "none")
    text += "- Median above the bound: %s.\n" % medians_above(rows, "auto")
    methods = sorted({row["found_by"] for row in rows if row["auto"]})
    return text + "- Budgets: %s. Found by: %s.\n" % (budgets(rows), ", ".join(methods))


def order_table(rows):
    lines, gains = [], []
    for row in sorted(rows, key=lambda r: r["row"]):
        both = row["auto"] and row["searched"]
        if both:
            gains.append(row["auto"] / row["searched"])
        lines.append([*machine_of(row), ms(row["bound"]), ms(row["auto"]), "**%s**" % ms(row["searched"]),
                      "%.1f" % (100 * (gains[-1] - 1)) if both else "–", row["order"] or "–"])
    text = markdown(["graph", "machine", "bound", "auto", "with order", "gain [%]", "order"], lines, 2) + "\n"
    text += "- Geometric mean of auto over auto with order: **%.3f** (%d rows, smallest %.3f, largest %.3f).\n" % (
        mean(gains), len(gains), min(gains, default=float("nan")), max(gains, default=float("nan")))
    text += "- Median above the bound, auto: %s.\n- With order: %s.\n" % tuple(
        medians_above(rows, key) for key in ("auto", "searched"))
    return text + "- Rows where it is worse: %d. Budgets: %s.\n" % (sum(gain < 1 - 1e-9 for gain in gains), budgets(rows))


def robust_table(rows):
    head = ["graph", "machine", "auto [ms]", "95 % above it", "robust [ms]", "95 % above it", "excess [%]", "p95 [%]", "does not fit"]
    lines, own, common, slower, p95 = [], [], [], [], []
    for row in sorted(rows, key=lambda r: r["row"]):
        if not row["auto"] or not row["robust"]:
            continue
        before, after = row["auto_p95"] / row["auto"] - 1, row["robust_p95"] / row["robust"] - 1
        own.append((before, after))
        common.append((before, row["robust_p95"] / row["auto"] - 1))
        slower.append(row["robust"] / row["auto"])
        p95.append(row["robust_p95"] / row["auto_p95"])
        lines.append([*machine_of(row), ms(row["auto"]), "+%.1f %%" % (100 * before), ms(row["robust"]), "+%.1f %%" % (100 * after),
                      "%+.0f" % (100 * (after / before - 1)), "%+.1f" % (100 * (p95[-1] - 1)),
                      "%d → %d" % (row["auto_over"], row["robust_over"])])
    total = lambda pairs: 100 * (sum(b for _, b in pairs) / sum(a for a, _ in pairs) - 1)
    text = markdown(head, lines, 2) + "\n"
    text += "- Sum of the excesses over the own step time: **%+.0f %%**; over the step time of auto: %+.0f %%.\n" % (
        total(own), total(common))
    text += "- Geometric mean of robust over auto: 95th percentile **%.3f**, step time %.3f (%d rows).\n" % (
        mean(p95), mean(slower), len(p95))
    return text + "- Draws of 200 that do not fit: %d before, %d after. Budgets: %s.\n" % (
        sum(r["auto_over"] or 0 for r in rows), sum(r["robust_over"] or 0 for r in rows),
        ", ".join(sorted({row["budget"] for row in rows})))


def medians_above(rows, key):
    """Medians of the step time over the bound: of all rows, and with tight and with full memory."""
    found = [row for row in rows if row[key]]
    above = lambda some: 100 * (statistics.median(row[key] / row["bound"] for row in some) - 1) if some else math.nan
    return "**%.1f %%** in %d rows, %.1f %% with tight memory, %.1f %% with full memory" % (
        above(found), len(found), above([row for row in found if not is_full(row)]), above([row for row in found if is_full(row)]))


def budgets(rows):
    """Budget of the rows with tight and with full memory."""
    of = lambda full: ", ".join(sorted({row["budget"] for row in rows if is_full(row) == full})) or "none"
    return "%s with tight memory, %s with full memory" % (of(False), of(True))


def workload_table(rows):
    """A table per objective."""
    lines, worst = [], {}
    for objective in dict.fromkeys(objective for _, objective, _, _ in WORKLOADS):
        lines += ["### " + objective, "", "| workload | best known | auto, seeds %s | worst ρ | budget | found by, after [s] |" % ", ".join(map(str, SEEDS)),
                  "|---|--:|--:|--:|--:|---|"]
        for file, _, best, _ in [workload for workload in WORKLOADS if workload[1] == objective]:
            mine = [row for row in rows if row["file"] == file and row["objective"] == objective]
            if not mine:
                continue
            ratio = max(row["value"] for row in mine) / best
            worst.setdefault(objective, []).append(ratio)
            methods = list(dict.fromkeys(row["found_by"] for row in mine))
            lines.append("| %s | %.4f | %s | %.4f | %s | %s %s |" % (
                short_name(file), best, " ".join("%.4f" % row["value"] for row in mine), ratio, mine[0]["budget"],
                ", ".join(methods), " ".join("%.1f" % row["at"] for row in mine)))
        lines.append("")
    exact = [row for row in rows if "contiguous" in row]
    if exact:
        lines += ["### contiguous, exactly (max-load)", "", "| workload | value | published | its time |", "|---|--:|--:|--:|"]
        lines += ["| %s | %.4f | %.4f | %.2f s |" % (short_name(row["file"]), row["contiguous"], row["exact"], row["contiguous_s"])
                  for row in exact]
        lines.append("")
    text = "\n".join(lines) + "\n"
    for objective, ratios in worst.items():
        text += "%s: worst ρ %.4f.\n" % (objective, max(ratios))
    return text


def short_name(file):
    """`operator/bert_l-3_inference` for `…/OperatorGraphs/bert_l-3_inference`."""
    return "/".join(file.split("/")[1:]).replace("Graphs", "").lower()


def robust_page(rows):
    return ("# Placements that hold\n\n"
            "`place` and `place --robust` (`docs/guide/robust.md`) one after the other, with the same budget and threads; both\n"
            "answers under 5 %% noise, in 200 draws that neither search has seen. `bench/quality.py --robust` writes this page.\n\n"
            "- 95 %% above it: 95th percentile of the noisy steps above the step time without noise, the excess.\n"
            "- excess: change of the excess. p95: change of the 95th percentile itself.\n"
            "- does not fit: draws of 200 in which the placement does not fit in memory.\n"
            "- Costs are of version 1.\n"
            "- The step time of robust is within 2 %% of the fastest that its own search found. It may be further above that of\n"
            "  auto, which had the whole budget; where a placement would not fit in some draws, it is (last column).\n\n%s") % robust_table(
                [r for r in rows if "robust" in r])


def page(rows):
    machines, workloads = [r for r in rows if "methods" in r], [r for r in rows if "file" in r]
    orders = [r for r in rows if "searched" in r]
    text = "# Quality\n\nHow good the placements of `emplace place` are. `bench/quality.py` writes this page. Times in ms. Costs are of version 1.\n"
    if workloads:
        text += ("\n## Workloads of dnn-partitioning (auto on one core)\nρ is the value over the best known one; below 1 is a record.\n"
                 "`layer/` and `operator/` are its LayerGraphs and OperatorGraphs.\n\n%s") % workload_table(workloads)
    if machines:
        text += ("\n## Ten training graphs on five machines (auto)\n"
                 "- “–”: nothing feasible; in the gain it counts as one CPU.\n"
                 "- after: time at which auto found its placement [s].\n"
                 "- gain: best of the five over auto [%%]; the five are %s.\n"
                 "- above: auto above the bound [%%].\n\n%s") % (", ".join(RIVALS), machine_table(machines))
    if orders:
        text += "\n## Order\n`place` and `place --order search`, one after the other, with the same budget and threads.\n\n"
        text += order_table(orders)
    return text


def main():
    args = arguments()

    def run():
        rows, failures = Rows(args.out, lambda row: row["row"]), 0
        if not args.table:
            if not args.workloads and not args.graphs:
                raise Failed("--graphs or --workloads is needed to run anything")
            jobs = [*(workload_jobs(args) if args.workloads else []), *(machine_jobs(args) if args.graphs else [])]
            jobs = [(row, make) for row, make in jobs if row not in rows.rows and re.search(args.only, row)]
            failures = run_jobs(rows.add, jobs, lambda row: row.get("value") or row.get("auto"))
        text = (robust_page if args.robust else page)(list(rows.rows.values()))
        if args.page:
            with open(args.page, "w") as file:
                file.write(text)
        else:
            print(text)
        return finish(failures, "rows")
    return exit_status(run)


if __name__ == "__main__":
    sys.exit(main())

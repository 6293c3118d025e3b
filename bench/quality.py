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
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

GRAPHS = ["nmt-2layer-bs64", "nmt-4layer-bs64", "rnnlm-bs64", "nasnet_a_cifar-bs32", "inception_v3-bs1",
          "inception_v3-bs32", "resnet50-bs32", "googlenet-bs64", "bert_base-bs32-seq128",
          "transformer_base-bs64-seq40"]
MACHINES = [("k40", 2), ("k40", 4), ("k40", 8), ("v100", 2), ("v100", 4)]
CAPS = {2: 0.6, 4: 0.4, 8: 0.27}
RIVALS = ["scotch", "mincut", "metis", "expert", "m-etf"]
ENDINGS = (".json.gz", ".json", ".json.zst", ".epg", ".msgpack")
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", help="folder with the training graphs")
    parser.add_argument("--workloads", help="folder with latency-inputs and throughput-inputs")
    parser.add_argument("--out", required=True)
    parser.add_argument("--program", default="build/release/emplace")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--workload-budget", default="60s")
    parser.add_argument("--threads", default="0")
    parser.add_argument("--only", default="")
    parser.add_argument("--page")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--order", action="store_true")
    parser.add_argument("--robust", action="store_true")
    return parser.parse_args()


def emplace(args, words):
    """The JSON object that a command prints; None if no placement is feasible."""
    done = subprocess.run([args.program, *words, "--json", "--quiet"], capture_output=True, text=True)
    if done.returncode in (130, 143) or done.returncode < 0:
        raise KeyboardInterrupt
    if done.returncode == 3 and not done.stdout.strip():
        return None
    if done.returncode not in (0, 3):
        sys.exit("error: %s: %s" % (" ".join(words), done.stderr.strip()))
    return json.loads(done.stdout)


def find_graph(folder, name):
    paths = [os.path.join(folder, name + ending) for ending in ENDINGS]
    return next((path for path in paths if os.path.exists(path)), None) or sys.exit("error: %s: has no %s" % (folder, name))


def devices_toml(profile, gpus, cap_bytes):
    text = '[[device]]\nname = "cpu:0"\nprofile = "haswell18"\n'
    for gpu in range(gpus):
        text += '[[device]]\nname = "gpu:%d"\nprofile = "%s"\n' % (gpu, profile)
        if cap_bytes:
            text += 'memory = "%dB"\n' % cap_bytes
    return text + '[[link]]\nbetween = ["*", "*"]\nprofile = "pcie3_x16"\n'


def peak_alone(args, graph, folder):
    """Bytes that one device needs for the whole graph."""
    path = os.path.join(folder, "one.toml")
    with open(path, "w") as file:
        file.write(devices_toml("k40", 1, 1 << 50))
    table = emplace(args, ["compare", graph, "-d", path, "-m", "single-gpu"])
    return table["methods"][0]["peak_memory_bytes"][1]


def write_devices(args, folder, graph, profile, gpus, tight):
    """The path of the device file of a row."""
    cap = int(peak_alone(args, graph, folder) * CAPS[gpus]) if tight else None
    path = os.path.join(folder, "devices.toml")
    with open(path, "w") as file:
        file.write(devices_toml(profile, gpus, cap))
    return path


def machine_inputs(args, done, suffix=""):
    """(row, graph, device file, folder) of every machine row that is wanted and not done."""
    for name in GRAPHS:
        for profile, gpus in MACHINES:
            for tight in (True, False):
                row = "%s/%s x %d/%s%s" % (name, profile, gpus, "%gx" % CAPS[gpus] if tight else "full", suffix)
                if row in done or not re.search(args.only, row):
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    graph = find_graph(args.graphs, name)
                    yield row, graph, write_devices(args, folder, graph, profile, gpus, tight), folder


def robust_rows(args, done):
    """auto, then auto with --robust, for the same budget and on as many threads, and both under unseen noise."""
    for row, graph, devices, folder in machine_inputs(args, done, "/robust"):
        made = {"row": row, "budget": args.budget}
        for key, more in (("auto", []), ("robust", ["--robust"])):
            file = os.path.join(folder, key + ".json")
            placed = emplace(args, ["place", graph, "-d", devices, "--budget", args.budget, "--threads", args.threads,
                                    "-o", file, *more])
            seen = placed and emplace(args, ["evaluate", graph, file, "-d", devices, "--jitter", "5%", "--draws", "200",
                                             "--seed", "77"])
            made[key] = placed and placed["measured"]["step_time_s"]
            made[key + "_p95"] = seen and seen["jitter"]["p95_s"]
            made[key + "_over"] = seen and seen["jitter"]["over_memory"]
            made[key + "_wall"] = placed and placed["wall_s"]
        yield made


def order_rows(args, done):
    """auto, then auto with --order search, for the same budget and on as many threads."""
    for row, graph, devices, _ in machine_inputs(args, done, "/order"):
        placed = [emplace(args, ["place", graph, "-d", devices, "--budget", args.budget, "--threads", args.threads,
                                 "--order", order]) for order in ("issue", "search")]
        issue, search = [p and p["measured"]["step_time_s"] for p in placed]
        yield {"row": row, "budget": args.budget, "auto": issue, "searched": search,
               "bound": next((p["lower_bound_s"] for p in placed if p), None),
               "order": placed[1] and placed[1]["order"], "found_by": placed[1] and placed[1]["method"]}


def machine_rows(args, done):
    for row, graph, devices, _ in machine_inputs(args, done):
        table = emplace(args, ["compare", graph, "-d", devices])
        placed = emplace(args, ["place", graph, "-d", devices, "--budget", args.budget, "--threads", args.threads])
        methods = {m["method"]: m["step_time_s"] for m in table["methods"] if m["valid"] and not m.get("transforms_graph")}
        yield {"row": row, "bound": table["lower_bound_s"], "methods": methods, "budget": args.budget,
               "auto": placed and placed["measured"]["step_time_s"], "found_by": placed and placed["method"],
               "at": placed and placed["findings"][-1]["at_s"], "evaluations": placed and placed["evaluations"]}


def workload_rows(args, done):
    for file, objective, best, contiguous in WORKLOADS:
        path = os.path.join(args.workloads, file + ".json")
        for seed in SEEDS:
            row = "%s/seed %d" % (file, seed)
            if row in done or not re.search(args.only, row):
                continue
            placed = emplace(args, ["place", path, "--objective", objective, "--budget", args.workload_budget, "--threads", "1",
                                    "--seed", str(seed)])
            found = {"row": row, "file": file, "objective": objective, "best": best, "budget": args.workload_budget,
                     "value": placed["objective_value"], "bound": placed["lower_bound_s"] * 1e3, "found_by": placed["method"],
                     "at": placed["findings"][-1]["at_s"], "evaluations": placed["evaluations"]}
            if contiguous and seed == SEEDS[0]:
                exact = emplace(args, ["place", path, "--objective", objective, "-m", "contiguous"])
                found.update(exact=contiguous, contiguous=exact["objective_value"], contiguous_s=exact["wall_s"])
            yield found


def is_full(row):
    """True if the GPUs of the row have all their memory."""
    return row["row"].split("/")[2] == "full"


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")


def machine_table(rows):
    """A table per graph."""
    head = ["", "| machine | bound | " + " | ".join(["1 CPU", *RIVALS]) + " | best other | **auto** | after | gain | above |",
            "|---|" + "--:|" * (7 + len(RIVALS))]
    lines, gains, worse, graphs = [], {}, [], set()
    for row in sorted(rows, key=lambda r: r["row"]):
        graph, machine, memory = row["row"].split("/")
        cpu, auto = row["methods"].get("single-cpu"), row["auto"]
        ms = lambda value: "–" if value is None else "%.1f" % (value * 1e3)
        rival = min(row["methods"].get(name, cpu or math.inf) for name in RIVALS)
        others = {k: v for k, v in row["methods"].items() if k not in RIVALS}
        other = min(others, key=others.get) if others else None
        gain = rival / auto if auto else float("nan")
        gains.setdefault(is_full(row), []).append(gain)
        if auto and min(row["methods"].values()) < auto * (1 - 1e-9):
            worse.append(row["row"])
        if graph not in graphs:
            lines += ["", "### " + graph, *head] if graphs else ["### " + graph, *head]
            graphs.add(graph)
        lines.append("| %s, %s | %s | %s | %s | %s | **%s** | %.0f | %.0f | %.0f |" % (
            " ".join(reversed(machine.split(" x "))), memory, ms(row["bound"]), ms(cpu), " | ".join(ms(row["methods"].get(n)) for n in RIVALS),
            "%s %s" % (ms(others[other]), other) if other else "–", ms(auto), row["at"],
            100 * (gain - 1), 100 * (auto / row["bound"] - 1)))
    text = "\n".join(lines) + "\n\n### Summary\n"
    for full, values in sorted(gains.items()):
        text += "- Geometric mean of the best of the five over auto, %s memory: **%.3f** (%d rows, smallest %.3f).\n" % (
            "full" if full else "tight", mean(values), len(values), min(values))
    text += "- Rows where a method of the tables beats auto: %s.\n" % (", ".join(worse) or "none")
    text += "- Median above the bound: %s.\n" % medians_above(rows, "auto")
    methods = sorted({row["found_by"] for row in rows if row["auto"]})
    return text + "- Budgets: %s. Found by: %s.\n" % (budgets(rows), ", ".join(methods))


def order_table(rows):
    lines = ["| graph | machine | bound | auto | with order | gain [%] | order |", "|---|---|--:|--:|--:|--:|---|"]
    ms = lambda value: "–" if value is None else "%.1f" % (value * 1e3)
    gains = []
    for row in sorted(rows, key=lambda r: r["row"]):
        graph, machine, memory, _ = row["row"].split("/")
        both = row["auto"] and row["searched"]
        if both:
            gains.append(row["auto"] / row["searched"])
        lines.append("| %s | %s, %s | %s | %s | **%s** | %s | %s |" % (
            graph, " ".join(reversed(machine.split(" x "))), memory, ms(row["bound"]), ms(row["auto"]), ms(row["searched"]),
            "%.1f" % (100 * (gains[-1] - 1)) if both else "–", row["order"] or "–"))
    text = "\n".join(lines) + "\n\n"
    text += "- Geometric mean of auto over auto with order: **%.3f** (%d rows, smallest %.3f, largest %.3f).\n" % (
        mean(gains), len(gains), min(gains, default=float("nan")), max(gains, default=float("nan")))
    text += "- Median above the bound, auto: %s.\n- With order: %s.\n" % tuple(
        medians_above(rows, key) for key in ("auto", "searched"))
    return text + "- Rows where it is worse: %d. Budgets: %s.\n" % (sum(gain < 1 - 1e-9 for gain in gains), budgets(rows))


def robust_table(rows):
    lines = ["| graph | machine | auto [ms] | 95 % above it | robust [ms] | 95 % above it | excess [%] | p95 [%] | does not fit |",
             "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    own, common, slower, p95 = [], [], [], []
    for row in sorted(rows, key=lambda r: r["row"]):
        graph, machine, memory, _ = row["row"].split("/")
        if not row["auto"] or not row["robust"]:
            continue
        before, after = row["auto_p95"] / row["auto"] - 1, row["robust_p95"] / row["robust"] - 1
        own.append((before, after))
        common.append((before, row["robust_p95"] / row["auto"] - 1))
        slower.append(row["robust"] / row["auto"])
        p95.append(row["robust_p95"] / row["auto_p95"])
        lines.append("| %s | %s, %s | %.1f | +%.1f %% | %.1f | +%.1f %% | %+.0f | %+.1f | %d → %d |" % (
            graph, " ".join(reversed(machine.split(" x "))), memory, row["auto"] * 1e3, 100 * before, row["robust"] * 1e3,
            100 * after, 100 * (after / before - 1), 100 * (p95[-1] - 1), row["auto_over"], row["robust_over"]))
    total = lambda pairs: 100 * (sum(b for _, b in pairs) / sum(a for a, _ in pairs) - 1)
    text = "\n".join(lines) + "\n\n"
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
            "- The step time of robust is within 2 %% of the fastest that its own search found. It may be further above that of\n"
            "  auto, which had the whole budget; where a placement would not fit in some draws, it is (last column).\n\n%s") % robust_table(
                [r for r in rows if "robust" in r])


def page(rows):
    machines, workloads = [r for r in rows if "methods" in r], [r for r in rows if "file" in r]
    orders = [r for r in rows if "searched" in r]
    text = "# Quality\n\nHow good the placements of `emplace place` are. `bench/quality.py` writes this page. Times in ms.\n"
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
    rows = []
    if os.path.exists(args.out):
        with open(args.out) as file:
            rows = [json.loads(line) for line in file if line.endswith("\n")]
    done = {row["row"] for row in rows}
    if not args.table:
        jobs = []
        if args.workloads:
            jobs.append(workload_rows(args, done))
        if args.graphs:
            jobs.append((order_rows if args.order else robust_rows if args.robust else machine_rows)(args, done))
        if not jobs:
            sys.exit("error: --graphs or --workloads is needed to run anything")
        for job in jobs:
            for row in job:
                rows.append(row)
                with open(args.out, "a") as file:
                    file.write(json.dumps(row) + "\n")
                print("%s: %s" % (row["row"], row.get("value") or row.get("auto")), file=sys.stderr)
    text = robust_page(rows) if args.robust else page(rows)
    if args.page:
        with open(args.page, "w") as file:
            file.write(text)
    else:
        print(text)


if __name__ == "__main__":
    main()

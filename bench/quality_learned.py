#!/usr/bin/env python3
"""The learned rows of the placement quality table: latency of the dnn-partitioning workloads.

  on-graph    a sweep trained on each workload, from scratch and from the best heuristic; the better of the two
  zero-shot   the most likely placement of a sweep trained only on other networks, without search or sampling
  fine-tuned  the same policy after 60 s of fine-tuning on the workload

quality_learned.py --workloads DIR --graphs DIR --out FOLDER [--seeds 1,2] writes FOLDER/rows.jsonl (one line per
number), FOLDER/rows.md and the run directories. Existing results are reused.
The DIR of --workloads contains LayerGraphs/ and OperatorGraphs/ of latency-inputs. The DIR of --graphs contains the
measured PipeDream graphs in a format that emplace reads.
"""
import collections
import functools
import json
import math
import pathlib
import re
import subprocess
import sys
import time

from tables import Rows, exit_status, finish, markdown, mean, parser_of, run_jobs, run_program

# Network: file, best known latency [ms], family. Training on any member of the family counts as having seen
# it.
WORKLOADS = {
    "bert24": ("LayerGraphs/bert24_inference.json", 100.2185, "bert"),
    "inceptionv3": ("LayerGraphs/inceptionv3_inference.json", 1186.548058, "inception"),
    "bert_l-3": ("OperatorGraphs/bert_l-3_inference.json", 408.474408, "bert"),
    "resnet50": ("OperatorGraphs/resnet50_inference.json", 651.120759, "resnet"),
}
# Additional training graphs; none of them is a network above.
OTHERS = {"densenet121": "pipedream-densenet121.json", "alexnet": "pipedream-alexnet.json"}
# Machine variants of a network: ratio of all transfers to all CPU times (None: unchanged), and memory
# factor.
VARIANTS = [(None, 1), (0.15, 1.5), (0.5, 0.8), (1.5, 1), (3, 0.7), (6, 1)]


def workload_of(graph, cpu_factor=10.0, ms_per_byte=1 / 2147483.648):
    """A PipeDream profile as a workload: its forward pass, a CPU slower by this factor, eight accelerators."""
    ops = [op for op in graph["ops"] if op["phase"] == "forward"]
    kept = {op["id"] for op in ops}
    nodes, edges = [], []
    size_of = {op["id"]: sum(o["shape"][0] for o in op["outputs"]) for op in ops}
    for op in ops:
        ms = op.get("measured_us", {}).get("gpu", 0.0) / 1000
        nodes.append({"id": op["id"], "name": op["name"], "supportedOnFpga": 1, "cpuLatency": cpu_factor * ms,
                      "fpgaLatency": ms, "isBackwardNode": False, "colorClass": op["id"],
                      "size": float(op["param_bytes"] + size_of[op["id"]])})
        for source in sorted({i[0] for i in op["inputs"]} & kept):
            edges.append({"sourceId": source, "destId": op["id"], "cost": size_of[source] * ms_per_byte,
                          "size": float(size_of[source])})
    total = sum(n["size"] for n in nodes)
    return {"maxSizePerFPGA": total / 5, "maxFPGAs": 8, "maxCPUs": 1, "nodes": nodes, "edges": edges}


def variant_of(workload, ratio, memory):
    changed = json.loads(json.dumps(workload))
    sent = sum({edge["sourceId"]: edge["cost"] for edge in changed["edges"]}.values())
    if ratio is not None:
        factor = ratio * sum(node["cpuLatency"] for node in changed["nodes"]) / sent
        for edge in changed["edges"]:
            edge["cost"] *= factor
    largest = max(node["size"] for node in changed["nodes"])
    changed["maxSizePerFPGA"] = max(largest, changed["maxSizePerFPGA"] * memory)
    total = sum(node["size"] for node in changed["nodes"])
    changed["maxFPGAs"] = max(changed["maxFPGAs"], math.ceil(1.5 * total / changed["maxSizePerFPGA"]))
    return changed


def best_of(summary):
    """Least latency of all starts of a run [ms], and the number of placements measured."""
    return (min(start["best_step_time_s"] for start in summary["starts"]) * 1e3,
            sum(start["measurements"] for start in summary["starts"]))


def write_whole(path, text):
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


class Bench:
    def __init__(self, options):
        self.o = options
        self.out = pathlib.Path(options.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.rows = Rows(self.out / "rows.jsonl", lambda row: (row["kind"], row["network"], row["seed"]))

    def row(self, kind, network, seed):
        """The row; None if it exists."""
        if (kind, network, seed) in self.rows.rows:
            return None
        started = time.monotonic()
        makers = {"on-graph": self.on_graph, "zero-shot": self.zero_shot, "fine-tuned": self.fine_tuned}
        latency_ms, evaluations = makers[kind](network, seed)
        return {"kind": kind, "network": network, "seed": seed, "latency_ms": latency_ms,
                "rho": latency_ms / WORKLOADS[network][1], "evaluations": evaluations,
                "seconds": round(time.monotonic() - started, 1)}

    def all_rows(self):
        """Makes the rows that are missing; the exit status."""
        o = self.o
        jobs = [("%s %s seed %d" % key, functools.partial(self.row, *key)) for key in (
            (kind, network, seed) for seed in map(int, o.seeds.split(",")) for kind in o.kinds.split(",")
            for network in o.networks.split(","))]
        jobs = [job for job in jobs if re.search(o.only, job[0])]
        failures = run_jobs(self.rows.add, jobs, lambda row: "%.3f ms  rho %.4f  %s s" % (
            row["latency_ms"], row["rho"], row["seconds"]))
        table = self.table()
        write_whole(self.out / "rows.md", table)
        print("\n" + table)
        return finish(failures, "rows")

    def path(self, network):
        return pathlib.Path(self.o.workloads) / WORKLOADS[network][0]

    def emplace(self, *arguments):
        return run_program(self.o.program, list(map(str, arguments)))

    def run(self, config, name, seed, budget, *settings):
        """Makes or resumes a run; returns its summary."""
        folder = self.out / f"{name}-{seed}"
        summary = self.out / f"{name}-{seed}.json"
        if not summary.exists():
            if folder.exists():
                subprocess.run(["rm", "-r", folder], check=True)
            sets = [part for setting in settings for part in ("--set", setting)]
            found = self.emplace("run", self.o.configs / config, "--run-dir", folder, "--seed", seed, "--budget", budget, *sets)
            write_whole(summary, json.dumps(found))
        return folder, json.loads(summary.read_text())

    def training_graphs(self, family):
        """Every network outside the family, on several machines each."""
        folder = self.out / "graphs"
        folder.mkdir(exist_ok=True)
        sources = {n: json.loads(self.path(n).read_text()) for n in WORKLOADS if WORKLOADS[n][2] != family}
        for name, file in OTHERS.items():
            sources[name] = workload_of(json.loads((pathlib.Path(self.o.graphs) / file).read_text()))
        names = []
        for number, (ratio, memory) in enumerate(VARIANTS):
            for network, workload in sources.items():
                path = folder / f"{network}-{number}.json"
                if not path.exists():
                    write_whole(path, json.dumps(variant_of(workload, ratio, memory)))
                names.append(str(path.absolute()))
        return "input.graphs=" + json.dumps(names)

    def on_graph(self, network, seed):
        _, summary = self.run("latency.toml", f"on-{network}", seed, self.o.budget, f"input.graph={self.path(network)}")
        return best_of(summary)

    def trained(self, network, seed):
        family = WORKLOADS[network][2]
        folder, _ = self.run("latency-family.toml", f"without-{family}", seed, self.o.family_budget,
                             self.training_graphs(family))
        return folder

    def zero_shot(self, network, seed):
        placed = self.emplace("place", self.path(network), "--objective", "latency", "--policy",
                              self.trained(network, seed), "-o", self.out / f"zero-{network}-{seed}.json")
        if not placed["measured"]["valid"]:
            return math.inf, 1
        return placed["measured"]["step_time_s"] * 1e3, 1

    def fine_tuned(self, network, seed):
        _, summary = self.run("latency.toml", f"fine-{network}", seed, self.o.fine_budget, f"input.graph={self.path(network)}",
                              f"run.policy={self.trained(network, seed).absolute()}", 'run.starts=["scratch"]')
        return best_of(summary)

    def table(self):
        lines, found = [], collections.defaultdict(dict)
        for row in self.rows.rows.values():
            found[row["kind"], row["seed"]][row["network"]] = row["rho"]
        for (kind, seed), rho in sorted(found.items()):
            if len(rho) < len(WORKLOADS):
                continue
            values = [*(rho[n] for n in WORKLOADS), max(rho.values()), mean(rho.values())]
            lines.append([kind, seed, *("%.4f" % value for value in values)])
        return markdown(["row", "seed", *WORKLOADS, "worst ρ", "geometric mean ρ"], lines)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = parser_of(__doc__, program=str(root / "build/release/emplace"))
    parser.add_argument("--workloads", required=True)
    parser.add_argument("--graphs", required=True)
    parser.add_argument("--configs", type=pathlib.Path, default=root / "configs/quality")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--kinds", default="on-graph,zero-shot,fine-tuned")
    parser.add_argument("--networks", default=",".join(WORKLOADS))
    parser.add_argument("--budget", default="140s", help="training time per workload")
    parser.add_argument("--family-budget", default="240s", help="training time on the other networks")
    parser.add_argument("--fine-budget", default="60s", help="fine-tuning time")
    bench = Bench(parser.parse_args())
    return exit_status(bench.all_rows)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""Speed of the CPU executor compared with PyTorch (Debian's python3-torch): one core each, side by side in one run.

usage: bench/resnet50_forward.py [options]                          ResNet-50 forward, batch 1
       bench/resnet50_forward.py --training GRAPH.json[.gz]         a whole training step of traced aten ops

Rounds alternate between `emplace evaluate GRAPH PLACEMENT --executor cpu` with all ops on one CPU, and the same graph in
PyTorch: op by op in graph order, one thread, oneDNN as installed. Both use the same core, one after the other. In
PyTorch a ReLU overwrites its input if it is the only reader (as in the model's definition), and the optimizer overwrites
its state (as torch.optim does). Weights and data are random. Prints the medians of all samples, minimum and maximum, and
the ratio. Exit status 1: the CPU executor is missing or refuses the graph; 77: PyTorch is missing.
"""
import argparse
import gzip
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ONE_CPU = '[[device]]\nname = "cpu:0"\nprofile = "haswell18"\nmemory = "16GiB"\n'


def words():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/emplace"))
    parser.add_argument("--graph", default=str(ROOT / "tests/fixtures/graphs/resnet50.onnx"))
    parser.add_argument("--training", metavar="GRAPH", help="an emplace graph instead of --graph")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=5, help="timed steps of PyTorch in each round")
    parser.add_argument("--warmups", type=int, default=5, help="steps before the timed ones")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--torch-only", action="store_true")
    parser.add_argument("--keep-memory", action="store_true", help="keep PyTorch's allocations in the process; without it,"
                        " the C library returns large ones to the system after each op")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    return parser.parse_args()


def alone_on(core, keep_memory):
    """One core and one thread. Restarts the program, because libraries read their variables at load time."""
    os.sched_setaffinity(0, {core})
    wanted = {"OMP_NUM_THREADS": "1"}
    if keep_memory:
        wanted.update(MALLOC_MMAP_THRESHOLD_=str(1 << 34), MALLOC_TRIM_THRESHOLD_=str(1 << 34), MALLOC_TOP_PAD_="0")
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.environ.update(wanted)
        os.execv(sys.executable, [sys.executable] + sys.argv)


def emplace(program, *args):
    done = subprocess.run([program, *args], capture_output=True, text=True)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["exit status %d" % done.returncode]
        raise SystemExit("bench/resnet50_forward.py: emplace %s: %s" % (args[0], lines[-1]))
    return done.stdout


class Emplace:
    def __init__(self, program, graph, folder):
        self.program, self.graph = program, graph
        self.devices, self.placement = str(folder / "one_cpu.toml"), str(folder / "placement.json")
        pathlib.Path(self.devices).write_text(ONE_CPU)
        emplace(program, "place", graph, "--devices", self.devices, "--method", "single-cpu", "--quiet", "-o",
                self.placement)

    def samples(self):
        answer = json.loads(emplace(self.program, "evaluate", self.graph, self.placement, "--devices", self.devices,
                                    "--executor", "cpu", "--json"))
        if not answer.get("valid", False):
            raise SystemExit("bench/resnet50_forward.py: the CPU executor cannot run this graph: %s" % answer.get("reason"))
        return answer["samples_s"]


class Step:
    """A graph in PyTorch: calls in id order; every tensor is dropped after its last reader."""

    def __init__(self, graph):
        import torch
        sys.path.insert(0, str(ROOT / "tests/parity"))
        import graph_ops
        self.torch, self.graph_ops, self.ops = torch, graph_ops, graph["ops"]
        readers = {}
        for op in self.ops:
            for source in op["inputs"]:
                readers.setdefault(source[0], []).append(op["id"])
        memory = {}  # Op whose memory a view aliases.
        for op in self.ops:
            is_view = op["type"] in graph_ops.VIEWS
            memory[op["id"]] = memory[op["inputs"][0][0]] if is_view else op["id"]
        last = {}
        for op in self.ops:
            for source, _ in op["inputs"]:
                last[memory[source]] = op["id"]
        self.drop = [[i for i in {p for p, _ in op["inputs"]} if readers[i][-1] == op["id"]] for op in self.ops]
        self.state = self.random_state()
        self.in_place = [self.can_write_over(op, last, memory) for op in self.ops]

    def can_write_over(self, op, last, memory):
        if not op["inputs"]:
            return False
        source = memory[op["inputs"][0][0]]
        is_last = last[source] == op["id"] and [p for p, _ in op["inputs"]].count(source) == 1
        if op["type"] == "Relu":
            return is_last and source not in self.state
        return (op.get("phase") == "update" and is_last and source == op["inputs"][0][0]
                and op["type"] in ("aten::add", "aten::mul", "aten::addcmul", "aten::addcdiv"))

    def random_state(self):
        torch, state = self.torch, {}
        torch.manual_seed(1)
        for op in self.ops:
            if op["inputs"] or op["type"] not in ("Parameter", "Buffer", "OptimizerState", "Input", "Constant"):
                continue
            spec = op["outputs"][0]
            dtype = self.graph_ops.DTYPES[spec["dtype"]]
            if not dtype.is_floating_point:
                state[op["id"]] = torch.randint(0, 2, spec["shape"], dtype=dtype)
            elif op["type"] in ("Buffer", "OptimizerState"):
                state[op["id"]] = torch.rand(spec["shape"]) + 0.5  # Variances and second moments are positive.
            else:
                state[op["id"]] = torch.randn(spec["shape"]) * 0.05
        return state

    def run(self):
        values = {i: [t] for i, t in self.state.items()}
        for op, drop, in_place in zip(self.ops, self.drop, self.in_place):
            if op["id"] in self.state:
                continue
            inputs = [values[p][k] for p, k in op["inputs"]]
            kind, attrs = op["type"], op.get("attrs", {})
            if in_place:
                result = self.write_over(kind, attrs, inputs)
            else:
                result = self.graph_ops.OPS[kind](attrs, inputs, [(o["dtype"], o["shape"]) for o in op["outputs"]])
            values[op["id"]] = result if isinstance(result, (tuple, list)) else [result]
            del inputs, result
            for i in drop:
                del values[i]

    def write_over(self, kind, attrs, inputs):
        if kind == "Relu":
            return inputs[0].relu_()
        name = kind.split("::")[1]
        if name in ("add", "mul"):
            other = inputs[1] if len(inputs) > 1 else self.graph_ops.SCALAR
            return inputs[0].mul_(other) if name == "mul" else inputs[0].add_(other, alpha=attrs.get("alpha", 1))
        return getattr(inputs[0], name + "_")(inputs[1], inputs[2])

    def samples(self, warmups, timed):
        """Times of the steps [s]; each starts from the same state."""
        self.state = self.random_state()
        times = []
        with self.torch.inference_mode():
            for k in range(warmups + timed):
                start = time.perf_counter()
                self.run()
                times.append(time.perf_counter() - start)
        return times[warmups:]


def summary(samples):
    return {"median_s": statistics.median(samples), "min_s": min(samples), "max_s": max(samples), "samples": len(samples)}


def main():
    args = words()
    alone_on(args.core, args.keep_memory)
    if importlib.util.find_spec("torch") is None:
        print("bench/resnet50_forward.py: torch is missing in %s; install python3-torch" % sys.executable, file=sys.stderr)
        raise SystemExit(77)
    source = args.training or args.graph
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        mine = None if args.torch_only else Emplace(args.program, source, folder)
        if mine:
            mine.samples()  # Fails early if the executor cannot run the graph.
        path = pathlib.Path(source)
        if path.suffix == ".onnx":
            emplace(args.program, "import", source, "-o", str(folder / "graph.json"))
            path = folder / "graph.json"
        with (gzip.open if path.suffix == ".gz" else open)(path) as file:
            graph = json.load(file)
        import torch
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
        step = Step(graph)
        ours, theirs = [], []
        for _ in range(args.rounds):
            if mine:
                ours += mine.samples()
            theirs += step.samples(args.warmups, args.samples)
    result = {"graph": graph["name"], "torch_version": torch.__version__, "torch": summary(theirs)}
    if mine:
        result["emplace"] = summary(ours)
        result["ratio"] = result["emplace"]["median_s"] / result["torch"]["median_s"]
    if args.json:
        print(json.dumps(result))
        return
    for name in ("emplace", "torch"):
        if name in result:
            row = result[name]
            print("%-8s %9.2f ms   (%.2f to %.2f, %d samples)" % (
                name, 1e3 * row["median_s"], 1e3 * row["min_s"], 1e3 * row["max_s"], row["samples"]))
    if mine:
        print("ratio    %9.2f" % result["ratio"])


if __name__ == "__main__":
    main()

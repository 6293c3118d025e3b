#!/usr/bin/python3
"""What one step of a whole graph computes, by PyTorch in float64: the fixture for executors that compute.

usage: run_graph.py GRAPH.json[.gz] OUT.json.gz [--seed N]
Initial state is that of executor/kernel/initial_values.h; the ops are those of graph_ops.py, in the order of ids. Writes
"state", the initial state, and "tensors", every output of every op that computes:
  {"op": name, "output": k, "shape", "largest": magnitude, "float32_error", "at": [positions], "values": [there]}
with some positions of each, spread over the tensor, its first and last among them; and of a parameter's new value
"largest_change", from the old one: a wrong gradient is small beside the parameter, not beside this. "float32_error" is
how far PyTorch itself is off when it runs the step in float32: all there is of a sum that should be zero.
"""
import argparse
import gzip
import json
import math
import pathlib

import numpy
import torch

import graph_ops

STATE = ("Parameter", "Buffer", "OptimizerState", "Input", "Constant")
MOST_POSITIONS = 8


def uniform(seed, op, elements):
    stream = graph_ops.splitmix64(numpy.array([seed << 32 | op], numpy.uint64))
    with numpy.errstate(over="ignore"):
        drawn = graph_ops.splitmix64(stream + numpy.arange(elements, dtype=numpy.uint64))
    return (drawn >> numpy.uint64(40)).astype(numpy.float64) * 2.0**-24


class Graph:
    def __init__(self, path):
        with (gzip.open if path.suffix == ".gz" else open)(path) as file:
            self.name, self.ops = (lambda g: (g["name"], g["ops"]))(json.load(file))
        self.memory = []  # The op whose memory an op's outputs are views of, or the op itself.
        for op in self.ops:
            is_view = op.get("attrs", {}).get("view", False)
            self.memory.append(self.memory[op["inputs"][0][0]] if is_view else op["id"])

    def outputs(self, op):
        return [(o["dtype"], o["shape"]) for o in op["outputs"]]

    def index_bound(self, state):
        """How many rows or classes the tensor's readers look up by it."""
        bounds = []
        for op in self.ops:
            for k, (source, _) in enumerate(op["inputs"]):
                if self.memory[source] != state["id"] or k != 1 or op["attrs"].get("view"):
                    continue
                producer, output = op["inputs"][0]
                shape = self.ops[producer]["outputs"][output]["shape"]
                if op["type"] in ("aten::embedding", "Gather"):
                    bounds.append(shape[0])
                elif op["type"] in ("aten::nll_loss_forward", "aten::nll_loss2d_forward"):
                    bounds.append(shape[1])
        return min(bounds, default=2)

    def initial(self, op, seed):
        dtype, shape = self.outputs(op)[0]
        elements = math.prod(shape)
        u = uniform(seed, op["id"], elements)
        if dtype == "i64":
            values = numpy.floor(u * self.index_bound(op)).astype(numpy.int64)
        elif dtype in ("u8", "bool"):
            values = (u >= 0.5).astype(numpy.uint8 if dtype == "u8" else numpy.bool_)
        else:
            assert dtype == "f32", dtype
            if op["type"] == "Parameter" and len(shape) >= 2:
                values = (2 * u - 1) / math.sqrt(elements / max(1, shape[0]))
            elif op["type"] == "Parameter":
                values = (2 * u - 1) / 2 + 1 if op["name"].endswith("weight") else (2 * u - 1) / 10
            elif op["type"] == "Buffer":
                values = 0.5 + u
            elif op["type"] == "OptimizerState":
                values = u / 1000
            elif op["type"] == "Constant" and elements == 1:
                values = 0 * u + 2
            else:
                values = 2 * u - 1
            values = values.astype(numpy.float32).astype(numpy.float64)
        return torch.from_numpy(values.reshape(shape))

    def run(self, seed, floating):
        """op id → its outputs; all kept."""
        values = []
        for op in self.ops:
            if op["type"] in STATE:
                state = self.initial(op, seed)
                values.append([state.to(floating) if state.is_floating_point() else state])
            else:
                inputs = [values[source][k] for source, k in op["inputs"]]
                values.append(graph_ops.run(op["type"], op["attrs"], inputs, self.outputs(op)))
        return values


def summary(op, k, tensor, single=None, before=None):
    flat = tensor.reshape(-1)
    assert flat.dtype == torch.int64 or torch.isfinite(flat).all(), op["name"]
    count = min(MOST_POSITIONS, len(flat))
    at = sorted({n * (len(flat) - 1) // max(1, count - 1) for n in range(count)})
    number = lambda x: float("%.8g" % x)
    row = {"op": op["name"], "output": k, "shape": list(tensor.shape), "largest": number(flat.abs().max())}
    if single is not None and single.is_floating_point():
        row["float32_error"] = float("%.2g" % (tensor - single).abs().max())
    if before is not None:
        row["largest_change"] = number((tensor - before).abs().max())
    return {**row, "at": at, "values": [number(flat[i]) for i in at]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("graph", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    graph = Graph(args.graph)
    values, singles = (graph.run(args.seed, floating) for floating in (torch.float64, torch.float32))
    state = [summary(op, 0, values[op["id"]][0]) for op in graph.ops if op["type"] in STATE]
    tensors = []
    for op in graph.ops:
        if op["type"] in STATE or op["attrs"].get("view"):
            continue
        before = values[op["colocate"]][0] if "colocate" in op else None
        tensors += [summary(op, k, tensor, singles[op["id"]][k], before) for k, tensor in enumerate(values[op["id"]])]
    rows = lambda them: ",\n".join(json.dumps(row, separators=(",", ":")) for row in them)
    text = '{"graph":"%s","seed":%d,"state":[\n%s\n],"tensors":[\n%s\n]}\n' % (
        args.graph.name, args.seed, rows(state), rows(tensors))
    with open(args.out, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(text.encode())
    print("%s: %d of state, %d computed" % (graph.name, len(state), len(tensors)))

#!/usr/bin/env python3
"""Are bounds of rnnlm with little memory loose, or are the placements of `auto` slow? Writes placements by hand.

usage: bench/tight_rnnlm.py [--program build/release/emplace] [--hidden N] [--steps N] [--batch N] [--folder DIR]

A step adds up a gradient for every time step of every large weight. The placements here keep each weight with the ops
that read it, and its gradients with the ops that make and add them up, on one GPU. Elementwise ops of the cells, which
need no weight, are on GPUs of their own. Prints the bound and the step time on the machines of bench/quality.py with 4
and 8 K40s and little memory. --folder keeps the placements and device files.
"""
import argparse
import gzip
import json
import math
import os
import re
import sys
import tempfile

import quality

BYTES = {"f32": 4, "i64": 8, "bool": 1}
# Each row has the GPU of: weights; gradients of the projection; elementwise ops of both cells; losses; the first time
# steps whose gradients of the projection are on the CPU.
ROWS = [
    (4, {"embed.weight": 3, "cells.0.weight_ih": 1, "cells.0.weight_hh": 2, "cells.1.weight_ih": 1, "cells.1.weight_hh": 2,
         "proj.weight": 0}, 0, (3, 3), 0, 0),
    (8, {"embed.weight": 5, "cells.0.weight_ih": 1, "cells.0.weight_hh": 2, "cells.1.weight_ih": 3, "cells.1.weight_hh": 4,
         "proj.weight": 5}, 0, (6, 6), 7, 0),
    (8, {"embed.weight": 5, "cells.0.weight_ih": 1, "cells.0.weight_hh": 2, "cells.1.weight_ih": 3, "cells.1.weight_hh": 4,
         "proj.weight": 5}, 0, (6, 7), 5, 2),
]


def size(op):
    return sum(BYTES[tensor["dtype"]] * math.prod(tensor["shape"]) for tensor in op["outputs"])


def weights_of(ops, names):
    """op -> the weight with which it stays: ops that read it through views, and all that makes its gradient."""
    readers = [[] for _ in ops]
    for op in ops:
        for maker, _ in op["inputs"]:
            readers[maker].append(op["id"])
    found = {}
    for weight in (op["id"] for op in ops if op["name"] in names):
        found[weight] = weight
        stack, bytes_of_weight = [weight], size(ops[weight])
        while stack:
            for reader in readers[stack.pop()]:
                if reader not in found:
                    found[reader] = weight
                    if ops[reader]["attrs"].get("view"):
                        stack.append(reader)
        stack = [reader for reader in readers[weight] if ops[reader]["phase"] == "update"]
        while stack:
            op = stack.pop()
            found[op] = weight
            stack += [maker for maker, _ in ops[op]["inputs"] if maker not in found and size(ops[maker]) >= bytes_of_weight]
    return found


def placement(ops, home, gradients, cells, losses, on_cpu):
    """The device of each op; -1 is the CPU."""
    found, devices = weights_of(ops, home), []
    for i, op in enumerate(ops):
        scope = op.get("group", "")
        step = re.search(r"\bt(\d+)", scope)
        weight = ops[found[i]] if i in found else None
        first = op["inputs"][0][0] if op["inputs"] else None
        reads_weight = op["attrs"].get("view") and first in found and ops[first]["phase"] == "forward"
        if weight and weight["name"] == "proj.weight" and op["phase"] == "backward" and size(op) >= size(weight) and not reads_weight:
            device = -1 if step and int(step[1]) < on_cpu else gradients
        elif weight:
            device = home[weight["name"]]
        elif op["attrs"].get("view") and op["inputs"]:
            device = devices[first]
        elif "cells." in scope:
            device = cells[int(scope.split("cells.")[1][0])]
        else:
            device = losses if "loss" in scope or "proj" in scope else home["embed.weight"]
        devices.append(devices[op["colocate"]] if op.get("colocate") is not None else device)
    return devices


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/emplace")
    parser.add_argument("--folder")
    for name, default in (("hidden", 2048), ("steps", 40), ("batch", 64)):
        parser.add_argument("--" + name, default=str(default))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = args.folder or folder
        os.makedirs(folder, exist_ok=True)
        graph = os.path.join(folder, "rnnlm.json.gz")
        quality.emplace(args, ["generate", "rnnlm", "--training", "--hidden", args.hidden, "--steps", args.steps,
                               "--batch", args.batch, "-o", graph])
        with gzip.open(graph) as file:
            ops = json.load(file)["ops"]
        path = os.path.join(folder, "placement.json")
        print("| GPUs | memory | bound [ms] | step [ms] | above [%] | fullest [%] | on the CPU |\n|--:|--:|--:|--:|--:|--:|--:|")
        for gpus, *how in ROWS:
            devices = quality.write_devices(args, folder, graph, "k40", gpus, True)
            bound = quality.emplace(args, ["bound", graph, "-d", devices])["lower_bound_s"] * 1e3
            if not quality.emplace(args, ["place", graph, "-d", devices, "-m", "single-cpu", "-o", path]):
                sys.exit("error: the graph fits on no CPU")
            with open(path) as file:
                document = json.load(file)
            placed = placement(ops, *how)
            document["ops"] = {op["name"]: "gpu:%d" % d if d >= 0 else "cpu:0" for op, d in zip(ops, placed)}
            with open(path, "w") as file:
                json.dump(document, file)
            found = quality.emplace(args, ["evaluate", graph, path, "-d", devices])
            fullest = 100 * max(found["peak_memory_bytes"][1:]) / memory_cap(devices)
            step = found["step_time_s"] * 1e3 if found["valid"] else None
            print("| %d | %gx | %.1f | %s | %.0f | %d |" % (
                gpus, quality.CAPS[gpus], bound, "%.1f | %.0f" % (step, 100 * (step / bound - 1)) if step else "does not fit | –",
                fullest, sum(d < 0 for d in placed)))


def memory_cap(path):
    """Memory of each GPU of a device file [B]."""
    with open(path) as file:
        return int(re.search(r'memory = "(\d+)B"', file.read())[1])


if __name__ == "__main__":
    main()

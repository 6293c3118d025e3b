#!/usr/bin/python3
"""Training steps small enough to run many times on one core, traced by the code that made the large ones.

usage: small_graphs.py EXPORT OUT [NAME…]
EXPORT is the folder of export_training.py (torch 1.13 and torchvision 0.14: Debian's python3-torch and
python3-torchvision). Writes OUT/NAME.json.gz for each network below, or those named.
"""
import gzip
import json
import pathlib
import sys
import time

sys.path.insert(0, sys.argv[1])
sys.setrecursionlimit(100000)
import torch  # noqa: E402
import torchvision  # noqa: E402

import export_training as export  # noqa: E402
import models  # noqa: E402
import steptrace  # noqa: E402

GRAPHS = {
    "resnet50-bs2": export.image_model(export.tv("resnet50"), 2, 224),
    "transformer_base-bs2-seq40": export.transformer(2, 40),
    "rnnlm-bs4": export.rnnlm(batch=4),
    "rnnlm-bs4-hidden512-steps10": export.rnnlm(batch=4, steps=10, hidden=512),
    "cifar10_cnn-bs32": export.image_model(models.Cifar10Cnn, 32, 32, "sgd"),
    # Whose results the tests compare with PyTorch's, value by value.
    "cifar10_cnn-bs4": export.image_model(models.Cifar10Cnn, 4, 32, "sgd"),
    "rnnlm-bs2-hidden8-steps2": export.rnnlm(batch=2, steps=2, hidden=8, vocab=20),
}


def trace(name):
    network = GRAPHS[name]

    def make():
        with export.NoInit():
            return network["make"]()
    source = "torch %s / torchvision %s model definition, traced with make_fx" % (
        torch.__version__.split("+")[0], torchvision.__version__.split("+")[0])
    return steptrace.trace_step(name, make, network["inputs"], network["loss"], network["optimizer"], source,
                                {"batch": network["batch"], "kind": "training", "precision": "f32"})


def text_of(graph):
    head = json.dumps({k: v for k, v in graph.items() if k != "ops"}, separators=(",", ":"))[:-1]
    ops = ",\n".join(json.dumps(op, separators=(",", ":")) for op in graph["ops"])
    return head + ',"ops":[\n' + ops + "\n]}\n"


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[2])
    for name in sys.argv[3:] or GRAPHS:
        start, graph = time.time(), trace(name)
        path = out / (name + ".json.gz")
        with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
            file.write(text_of(graph).encode())
        state = sum(op["param_bytes"] for op in graph["ops"])
        print("%-30s %6d ops %7.2f GFLOP %7.1f MB of state %4d kB %4.0f s" % (
            name, len(graph["ops"]), sum(op["flops"] for op in graph["ops"]) / 1e9, state / 1e6,
            path.stat().st_size / 1024, time.time() - start), flush=True)

#!/usr/bin/python3
"""Traces training steps that are small enough to run many times on one core, with the code that traced the large ones.

usage: small_graphs.py EXPORT OUT [NAME…]
EXPORT is the folder of export_training.py (torch 1.13 and torchvision 0.14: Debian's python3-torch and
python3-torchvision). Writes OUT/NAME.json.gz for each network below, or only for those named; "tiny" stands for those whose
results the tests compare.
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
}


def tiny_mobilenet():
    block = torchvision.models.mobilenetv3.InvertedResidualConfig
    return torchvision.models.MobileNetV3([block(8, 3, 8, 8, True, "RE", 2, 1, 1), block(8, 5, 12, 8, True, "HS", 1, 1, 1)],
                                          last_channel=16, num_classes=5)


def tiny_transformer():
    ints, floats = torch.int64, torch.float32
    return dict(make=lambda: models.TransformerNmt(vocab=20, dim=8, heads=2, layers=1), loss=export.transformer_loss,
                optimizer="adam", batch=2,
                inputs={"source": ((2, 3), ints), "target": ((2, 3), ints), "labels": ((2, 3), ints),
                        "pos": ((3, 8), floats), "mask": ((3, 3), floats)})


def tiny_bert():
    inputs = {k: ((2, 4), torch.int64) for k in ("tokens", "kinds", "positions", "labels")}
    inputs.update(mask=((2, 4), torch.float32), next=((2,), torch.int64))
    return dict(make=lambda: models.Bert(vocab=20, dim=8, heads=2, layers=1, seq=4), loss=export.bert_loss,
                optimizer="adam", batch=2, inputs=inputs)


def tiny_unet():
    return dict(make=lambda: models.UNet(base=3, depth=2, classes=2), loss=export.unet_loss, optimizer="momentum", batch=2,
                inputs={"image": ((2, 3, 8, 8), torch.float32), "mask": ((2, 8, 8), torch.int64)})


# Networks whose results the tests compare with PyTorch's, value by value: one small network of each kind.
TINY = {
    "cifar10_cnn-bs4": export.image_model(models.Cifar10Cnn, 4, 32, "sgd"),
    "rnnlm-bs2-hidden8-steps2": export.rnnlm(batch=2, steps=2, hidden=8, vocab=20),
    "nmt-tiny": export.nmt(2, batch=2, steps=2, hidden=8, vocab=20),
    "transformer-tiny": tiny_transformer(),
    "bert-tiny": tiny_bert(),
    "vit-tiny": export.image_model(lambda: torchvision.models.VisionTransformer(8, 4, 1, 2, 8, 16, num_classes=5), 2, 8, "adam"),
    "unet-tiny": tiny_unet(),
    "mobilenet-tiny": export.image_model(tiny_mobilenet, 2, 16, "rmsprop"),
    "densenet-tiny": export.image_model(lambda: torchvision.models.DenseNet(4, (2, 2), 8, bn_size=2, num_classes=5), 2, 32),
    "nasnet-tiny": export.image_model(
        lambda: models.CellNet(models.NASNET_NORMAL, models.NASNET_REDUCE, 1, 4, 5, 6, False), 2, 8),
}
GRAPHS.update(TINY)


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
    names = sys.argv[3:] or list(GRAPHS)
    for name in list(TINY) if names == ["tiny"] else names:
        start, graph = time.time(), trace(name)
        path = out / (name + ".json.gz")
        with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
            file.write(text_of(graph).encode())
        state = sum(op["param_bytes"] for op in graph["ops"])
        print("%-30s %6d ops %7.2f GFLOP %7.1f MB of state %4d kB %4.0f s" % (
            name, len(graph["ops"]), sum(op["flops"] for op in graph["ops"]) / 1e9, state / 1e6,
            path.stat().st_size / 1024, time.time() - start), flush=True)

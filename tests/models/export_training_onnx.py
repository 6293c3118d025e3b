#!/usr/bin/env python3
"""Forward graphs of the traced training steps, as ONNX in training mode, without weights.

usage: export_training_onnx.py EXPORT OUT [NAME…]
EXPORT is the folder of export_training.py, which traced the steps. Writes OUT/NAME.onnx.gz for each network of
export_training.py and of scripts/small_graphs.py, or those named ("tiny": those whose steps are fixtures).

No constant is folded, batch norm and dropout are those of training. Every weight is a graph input whose
doc_string is "parameter". `emplace import --train` makes of each file what the tracer made of its network.
Needs torch (any that has the TorchScript exporter), torchvision and onnx.
"""
import gzip
import io
import pathlib
import sys
import time
import warnings

EXPORT, OUT = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, EXPORT)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
sys.setrecursionlimit(100000)
warnings.filterwarnings("ignore")

import onnx  # noqa: E402
import torch  # noqa: E402

import export_training as export  # noqa: E402
import small_graphs  # noqa: E402

GRAPHS = {**export.GRAPHS, **small_graphs.TINY}


class Called(Exception):
    """Carries what a loss gives its network."""


def arguments(network):
    """The network's own inputs, by name: what its loss calls it with; labels are not among them."""
    tensors = {k: torch.zeros(shape, dtype=dtype) for k, (shape, dtype) in network["inputs"].items()}

    def module(*args):
        raise Called(args)
    try:
        network["loss"](module, tensors)
    except Called as called:
        names = {id(t): k for k, t in tensors.items()}
        return {names[id(t)]: t for t in called.args[0]}


def without_weights(model, weights):
    """Marks weights among the inputs, drops inputs that nothing reads, and infers every shape."""
    read = {name for node in model.graph.node for name in node.input}
    kept = [value for value in model.graph.input if value.name in read]
    for value in kept:
        if value.name in weights:
            value.doc_string = "parameter"
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for node in model.graph.node:
        node.doc_string = ""
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def exported(network):
    with export.NoInit():
        module = network["make"]().train()
    args = arguments(network)
    buffer = io.BytesIO()
    torch.onnx.export(module, tuple(args.values()), buffer, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, export_params=False, input_names=list(args), opset_version=17, dynamo=False)
    return without_weights(onnx.load_from_string(buffer.getvalue()), set(module.state_dict()))


if __name__ == "__main__":
    names = sys.argv[3:] or list(GRAPHS)
    for name in list(small_graphs.TINY) if names == ["tiny"] else names:
        start = time.time()
        model = exported(GRAPHS[name])
        model.graph.name = name
        path = OUT / (name + ".onnx.gz")
        with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
            file.write(model.SerializeToString(deterministic=True))
        print("%-28s %6d nodes %4d kB %4.0f s" % (name, len(model.graph.node), path.stat().st_size / 1024, time.time() - start),
              flush=True)

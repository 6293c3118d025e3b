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
import onnx.reference  # noqa: E402
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


def plain_average(x, size, adaptive=torch.nn.functional.adaptive_avg_pool2d):
    """The exporter has no adaptive pooling to sizes that do not divide: windows of one size instead."""
    size = (size, size) if isinstance(size, int) else tuple(size)
    if all(n % k == 0 for n, k in zip(x.shape[2:], size)):
        return adaptive(x, size)
    strides = [n // k for n, k in zip(x.shape[2:], size)]
    kernel = [n - (k - 1) * s for n, k, s in zip(x.shape[2:], size, strides)]
    return torch.nn.functional.avg_pool2d(x, kernel, strides)


def folded(model, largest=64):
    """Small whole numbers that follow from constants alone become constants, so that shape inference reaches every tensor."""
    known = {t.name: t for t in model.graph.initializer}
    kept = []
    for node in model.graph.node:
        if all(name in known for name in node.input if name) and node.op_type != "Dropout":
            part = onnx.helper.make_graph([node], "part", [], [onnx.helper.make_empty_tensor_value_info(o) for o in node.output],
                                          [known[name] for name in node.input if name])
            results = onnx.reference.ReferenceEvaluator(onnx.helper.make_model(part, opset_imports=model.opset_import)).run(None, {})
            if all(r.size <= largest and r.dtype.kind in "iub" for r in results):
                known.update({o: onnx.numpy_helper.from_array(r, o) for o, r in zip(node.output, results)})
                continue
        kept.append(node)
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(kept)
    read = {name for node in kept for name in node.input}
    model.graph.initializer.extend(t for name, t in known.items() if name in read)
    return model


def with_shapes(model):
    """Infers every shape; what follows from a shape is known once it is."""
    for _ in range(2):
        model = onnx.shape_inference.infer_shapes(folded(model), data_prop=True)
        shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
                  for v in list(model.graph.input) + list(model.graph.value_info)}
        for node in model.graph.node:
            if node.op_type == "Shape" and all(shapes.get(node.input[0], [0])):
                value = onnx.helper.make_tensor("value", onnx.TensorProto.INT64, [len(shapes[node.input[0]])], shapes[node.input[0]])
                node.CopyFrom(onnx.helper.make_node("Constant", [], [node.output[0]], node.name, value=value))
    return onnx.shape_inference.infer_shapes(folded(model), data_prop=True)


def without_weights(model, weights):
    """Marks weights among the inputs, drops inputs that nothing reads, folds shape arithmetic and infers every shape."""
    read = {name for node in model.graph.node for name in node.input}
    kept = [value for value in model.graph.input if value.name in read]
    for value in kept:
        if value.name in weights:
            value.doc_string = "parameter"
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for node in model.graph.node:
        node.doc_string = ""
    return with_shapes(model)


def exported(network):
    with export.NoInit():
        module = network["make"]().train()
    args = arguments(network)
    buffer = io.BytesIO()
    with torch.no_grad():  # No activations are kept.
        torch.onnx.export(module, tuple(args.values()), buffer, training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False, export_params=False, input_names=list(args), opset_version=17, dynamo=False)
    return without_weights(onnx.load_from_string(buffer.getvalue()), set(module.state_dict()))


if __name__ == "__main__":
    torch.nn.functional.adaptive_avg_pool2d = plain_average
    torch._C._jit_pass_cse = lambda graph: False  # A tracer keeps two equal relus apart.
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

#!/usr/bin/env python3
"""ONNX files from other tools than the default exporter, without their weights: quantised, optimised, symbolic, with control flow, legacy.

usage: export_quantised.py OUT [NAME…]

Writes OUT/NAME.onnx.zst and OUT/extra/NAME.json; export_models.py OUT --collect then puts the rows under "extra" of OUT/models.json.
Truth is the PyTorch module's that the file was made from: its flops before any quantisation, and its state dict's bytes.
Versions: as export_models.py, and onnxruntime 1.32.0.
"""
import argparse
import importlib.metadata
import json
import os
import pathlib
import sys
import tempfile
import traceback

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import numpy  # noqa: E402
import onnx  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

import export_models as main_table  # noqa: E402


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                                  nn.Conv2d(16, 32, 3, padding=1, groups=4), nn.ReLU6(), nn.MaxPool2d(2),
                                  nn.Conv2d(32, 64, 3, padding=1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.body(x))


class Branch(nn.Module):
    """torch.cond: one of two layers, by the sum of the input."""
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.a(x).relu(), lambda x: self.b(x).tanh(), (x,))


class Repeat(nn.Module):
    """A scripted loop: eight times one layer, the number of times that an input gives."""
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x, n: int):
        for _ in range(n):
            x = torch.tanh(self.layer(x))
        return x


class Traced(nn.Module):
    """A transformers model as the TorchScript exporter takes it: tokens and mask by position, one tensor out."""
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def convnet():
    torch.manual_seed(0)
    return ConvNet().eval(), (torch.randn(1, 3, 64, 64),), {}


def exported(folder, model, args, kwargs, **options):
    path = str(folder / "in.onnx")
    torch.onnx.export(model, args, path, **({"kwargs": kwargs} if kwargs else {}), **options)
    return path


class Random:
    """Calibration: four random images."""
    def __init__(self, name, shape):
        self.left = [{name: numpy.random.default_rng(i).standard_normal(shape, dtype=numpy.float32)} for i in range(4)]

    def get_next(self):
        return self.left.pop() if self.left else None


def convnet_qdq(folder):
    from onnxruntime.quantization import QuantFormat, quant_pre_process, quantize_static
    model, args, kwargs = convnet()
    path = exported(folder, model, args, kwargs, external_data=False)
    quant_pre_process(path, str(folder / "ready.onnx"))
    name = onnx.load(path).graph.input[0].name
    quantize_static(str(folder / "ready.onnx"), str(folder / "out.onnx"), Random(name, (1, 3, 64, 64)), quant_format=QuantFormat.QDQ,
                    per_channel=True)
    return "onnxruntime quantize_static, QDQ, per channel", model, args, kwargs


def convnet_qoperator(folder):
    from onnxruntime.quantization import QuantFormat, quant_pre_process, quantize_static
    model, args, kwargs = convnet()
    path = exported(folder, model, args, kwargs, external_data=False)
    quant_pre_process(path, str(folder / "ready.onnx"))
    name = onnx.load(path).graph.input[0].name
    quantize_static(str(folder / "ready.onnx"), str(folder / "out.onnx"), Random(name, (1, 3, 64, 64)), quant_format=QuantFormat.QOperator)
    return "onnxruntime quantize_static, QOperator", model, args, kwargs


def bert_dynamic_int8(folder):
    from onnxruntime.quantization import quantize_dynamic
    model, args, kwargs = main_table.prepared("bert")
    quantize_dynamic(exported(folder, model, args, kwargs, external_data=False), str(folder / "out.onnx"))
    return "onnxruntime quantize_dynamic", model, args, kwargs


def llama_int4(folder):
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    model, args, kwargs = main_table.prepared("llama")
    file = onnx.load(exported(folder, model, args, kwargs, external_data=False))
    quantizer = MatMulNBitsQuantizer(file, block_size=32, is_symmetric=True)
    quantizer.process()
    quantizer.model.save_model_to_file(str(folder / "out.onnx"), False)
    return "onnxruntime MatMulNBitsQuantizer, int4, blocks of 32", model, args, kwargs


def bert_ort_optimised(folder):
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions
    model, args, kwargs = main_table.prepared("bert")
    model.config._attn_implementation = "eager"
    model.pooler = None
    model, args, kwargs = Traced(model), (kwargs["input_ids"], kwargs["attention_mask"]), {}
    path = exported(folder, model, args, kwargs, dynamo=False, opset_version=17)
    options = FusionOptions("bert")
    options.enable_gelu_approximation = True
    optimizer.optimize_model(path, model_type="bert", num_heads=4, hidden_size=128, optimization_options=options,
                             opt_level=0).save_model_to_file(str(folder / "out.onnx"))
    return "onnxruntime.transformers.optimizer over a TorchScript export, opset 17", model, args, kwargs


def llama_dynamic_shapes(folder):
    model, args, kwargs = main_table.prepared("llama")
    dims = {key: {0: "batch", 1: "sequence"} for key in kwargs}
    os.rename(exported(folder, model, args, kwargs, dynamic_shapes=dims, external_data=False), folder / "out.onnx")
    return "torch.onnx.export(dynamic_shapes=…)", model, args, kwargs


def bert_dynamic_shapes(folder):
    model, args, kwargs = main_table.prepared("bert")
    dims = {key: {0: "batch", 1: "sequence"} for key in kwargs}
    os.rename(exported(folder, model, args, kwargs, dynamic_shapes=dims, external_data=False), folder / "out.onnx")
    return "torch.onnx.export(dynamic_shapes=…)", model, args, kwargs


def resnet18_dynamic_batch(folder):
    model, args, kwargs = main_table.prepared("resnet18")
    os.rename(exported(folder, model, args, kwargs, dynamic_shapes=({0: "batch"},), external_data=False), folder / "out.onnx")
    return "torch.onnx.export(dynamic_shapes=…)", model, args, kwargs


def cond_if(folder):
    torch.manual_seed(0)
    model, args = Branch().eval(), (torch.randn(8, 64),)
    os.rename(exported(folder, model, args, {}, external_data=False), folder / "out.onnx")
    return "torch.onnx.export of torch.cond", model, args, {}


def scripted_loop(folder):
    torch.manual_seed(0)
    model, args = Repeat().eval(), (torch.randn(8, 64), 8)
    path = exported(folder, torch.jit.script(model), (args[0], torch.tensor(8)), {}, dynamo=False, opset_version=17)
    os.rename(path, folder / "out.onnx")
    return "torch.onnx.export(dynamo=False, opset_version=17) of a scripted loop", model, args, {}


def legacy(name):
    def make(folder):
        model, args, kwargs = main_table.prepared(name)
        os.rename(exported(folder, model, args, kwargs, dynamo=False, opset_version=17), folder / "out.onnx")
        return "torch.onnx.export(dynamo=False, opset_version=17)", model, args, kwargs
    return make


EXTRA = {
    "convnet_qdq": convnet_qdq,
    "convnet_qoperator": convnet_qoperator,
    "bert_dynamic_int8": bert_dynamic_int8,
    "llama_int4": llama_int4,
    "bert_ort_optimised": bert_ort_optimised,
    "llama_dynamic_shapes": llama_dynamic_shapes,
    "bert_dynamic_shapes": bert_dynamic_shapes,
    "resnet18_dynamic_batch": resnet18_dynamic_batch,
    "cond_if": cond_if,
    "scripted_loop": scripted_loop,
    "legacy_resnet18": legacy("resnet18"),
    "legacy_lstm": legacy("torch_lstm"),
}


def one(name, out):
    with tempfile.TemporaryDirectory() as folder:
        made_by, model, args, kwargs = EXTRA[name](pathlib.Path(folder))
        file = onnx.load(str(pathlib.Path(folder) / "out.onnx"))
    read = {i for graph in main_table.graphs(file) for node in graph.node for i in node.input}
    floating = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE)
    held = sum(onnx.numpy_helper.to_array(t).nbytes for graph in main_table.graphs(file) for t in graph.initializer
               if t.name in read and main_table.counts(t.data_type in floating, main_table.elements(t)))
    flops, by_op = main_table.counted_flops(model, args, kwargs)
    row = dict(name=name, made_by=made_by, onnxruntime_version=importlib.metadata.version("onnxruntime"),
               torch_version=importlib.metadata.version("torch"), **main_table.store(file, name, out), flops=flops, flops_by_op=by_op,
               state_dict_bytes=sum(main_table.nbytes(t) for t in main_table.distinct(model)[0].values()), initializer_bytes=held,
               shape_options=OPTIONS.get(name, ""))
    (out / "extra").mkdir(exist_ok=True)
    (out / "extra" / f"{name}.json").write_text(json.dumps(row, indent=1) + "\n")
    print(f"{name}: {row['nodes']} nodes, opset {row['opset']}, {flops / 1e9:.3f} GFLOP, {row['file_bytes']} bytes", flush=True)


OPTIONS = {
    "llama_dynamic_shapes": "batch=2 sequence=32",
    "bert_dynamic_shapes": "batch=2 sequence=32",
    "resnet18_dynamic_batch": "batch=1",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in options.names or EXTRA:
        try:
            one(name, options.out)
        except Exception:  # Continue with the others.
            traceback.print_exc()
            failed.append(name)
    if failed:
        sys.exit(f"failed: {' '.join(failed)}")


if __name__ == "__main__":
    main()

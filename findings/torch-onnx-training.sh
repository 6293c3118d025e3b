#!/usr/bin/env bash
# Library: torch 2.15.0 (torch.onnx.export, dynamo=True), onnx 1.23.2, onnxscript 0.7.2.
# Guess: the export of a model in train() keeps its batch norms, with training_mode 1.
# Behaviour: batch norms are written as for inference. One after a convolution is folded into it, running statistics included;
#   of a fresh norm not even a bias is left. The option training= changes nothing; the exporter of TorchScript does keep them.
# Output seen: Conv, BatchNorm, ReLU, BatchNorm in train(): Conv, Relu, BatchNormalization with one output, and the
#   weights of one norm; with dynamo=False two norms of three outputs.
# Source: https://github.com/microsoft/onnxscript has the rule that folds; that it runs in train() was found by running.
# Consequence: a training step made from such a file trains a network without norms: less work, memory and state.
#   optimize=False keeps the norms, though for inference; em.trace needs no export.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" torch==2.15.0 onnx==1.23.2 onnxscript==0.7.2 numpy==2.4.6
python 2>/dev/null - <<'PYTHON'
import contextlib
import io

import onnx
import torch
from finding import seen
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4)).train()
x = torch.randn(2, 3, 8, 8)


def exported(**options):
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(model, (x,), "model.onnx", **options)
    graph = onnx.load("model.onnx").graph
    return [(node.op_type, len(node.output)) for node in graph.node], len(graph.initializer)


folded = [("Conv", 1), ("Relu", 1), ("BatchNormalization", 1)]
training = torch.onnx.TrainingMode.TRAINING
seen("train(): ops and their outputs", exported(dynamo=True)[0], folded)
seen("training=TRAINING", exported(dynamo=True, training=training)[0], folded)
nodes, _ = exported(dynamo=False, training=training)
seen("the older exporter", nodes, [("Conv", 1), ("BatchNormalization", 3), ("Relu", 1), ("BatchNormalization", 3)])
PYTHON

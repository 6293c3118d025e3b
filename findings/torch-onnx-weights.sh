#!/usr/bin/env bash
# Library: torch 2.15.0 (torch.onnx.export, dynamo=True), onnx 1.23.2, onnxscript 0.7.2.
# Guess: a file has an initializer for each parameter, with its type and its name, and one for two parameters that are tied.
# Behaviour: it depends on sizes and values. Equal values of up to 1,024 elements become one initializer, so that a fresh
#   model seems to have ties. What is computed from small weights is folded: a cast gives initializers of another type and
#   name, a tied head a second, transposed copy of the table.
# Output seen: three blocks of Linear and LayerNorm, fresh: 12 parameters, 3 initializers at width 16, 5 at 64, 9 at
#   1,025. A cast to bfloat16: folded at 16 x 16, but only for the bias at 128 x 128. A tied table of 100 x 16: two
#   initializers; of 1,000 x 64: one, and a Transpose.
# Source: the limits are constants of the folding in https://github.com/microsoft/onnxscript; found by running.
# Consequence: never judge ties, state or bytes of parameters by a small model with fresh values. emplace notes ties that the
#   file has and the model may not have.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" torch==2.15.0 onnx==1.23.2 onnxscript==0.7.2 numpy==2.4.6
python 2>/dev/null - <<'PYTHON'
import contextlib
import io

import onnx
import torch
from finding import seen
from torch import nn


class Blocks(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        for linear in self.linears:
            nn.init.eye_(linear.weight), nn.init.zeros_(linear.bias)

    def forward(self, x):
        for linear, norm in zip(self.linears, self.norms):
            x = norm(linear(x))
        return x


class Cast(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return nn.functional.linear(*(tensor.to(torch.bfloat16) for tensor in (x, self.linear.weight, self.linear.bias)))


class Tied(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x):
        return self.head(self.table(x))


def exported(model, x):
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(model.eval(), (x,), "model.onnx", dynamo=True)
    graph = onnx.load("model.onnx").graph
    return [node.op_type for node in graph.node], [onnx.TensorProto.DataType.Name(weight.data_type) for weight in graph.initializer]


for width, before in ((16, 3), (64, 5), (1025, 9)):
    seen(f"initializers of 12 parameters at width {width}", len(exported(Blocks(width), torch.randn(2, width))[1]), before)
for width, before in ((16, ["BFLOAT16", "BFLOAT16"]), (128, ["FLOAT", "BFLOAT16"])):
    seen(f"types after a cast at width {width}", exported(Cast(width), torch.randn(2, width))[1], before)
words = torch.zeros(2, 3, dtype=torch.long)
for sizes, before in (((100, 16), (["Gather", "MatMul"], 2)), ((1000, 64), (["Gather", "Transpose", "MatMul"], 1))):
    ops, weights = exported(Tied(*sizes), words)
    seen(f"a tied table of {sizes}: ops and initializers", (ops, len(weights)), before)
PYTHON

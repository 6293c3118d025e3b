#!/usr/bin/env bash
# Library: torch 2.15.0 (torch.utils.flop_counter), on a CPU.
# Guess: FlopCounterMode counts every matrix product of a network, in eval() as in train().
# Behaviour: it has a formula for some ops and counts all others as 0 without a word. Without gradients a module in eval()
#   takes another op: a Transformer layer or nn.MultiheadAttention is then one fused op, which counts 0.
# Output seen: 0 for nn.LSTM (nn.GRU is exact), grouped products of experts, mv, addmv, addbmm, _int_mm, cdist,
#   bilinear, conv_tbc; 0 for an encoder layer under no_grad, 2,228,224 with gradients; torchvision's ViT-B/32 loses a
#   third so.
# Source: https://github.com/pytorch/pytorch/issues/126268 for inference mode; the formulas are in torch/utils/flop_counter.py.
# Consequence: a placer that takes work from this counter puts recurrent layers, experts and Transformers for inference where
#   compute is slow. emplace has its own table of work and names in the graph what it does not know.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" torch==2.15.0 numpy==2.4.6
python - <<'PYTHON'
import torch
from finding import seen
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def work(call):
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def zeros(*shape, dtype=torch.float32):
    return torch.zeros(shape, dtype=dtype)


ends = torch.tensor([8, 16], dtype=torch.int32)
calls = {
    "nn.LSTM": lambda: nn.LSTM(8, 8)(zeros(4, 2, 8)),
    "_grouped_mm": lambda: torch._grouped_mm(zeros(16, 16, dtype=torch.bfloat16), zeros(2, 16, 16, dtype=torch.bfloat16), offs=ends),
    "mv": lambda: torch.mv(zeros(4, 8), zeros(8)),
    "addmv": lambda: torch.addmv(zeros(4), zeros(4, 8), zeros(8)),
    "addbmm": lambda: torch.addbmm(zeros(4, 16), zeros(2, 4, 8), zeros(2, 8, 16)),
    "_int_mm": lambda: torch._int_mm(zeros(32, 32, dtype=torch.int8), zeros(32, 32, dtype=torch.int8)),
    "cdist": lambda: torch.cdist(zeros(1, 8, 8), zeros(1, 8, 8)),
    "bilinear": lambda: nn.functional.bilinear(zeros(4, 8), zeros(4, 8), zeros(3, 8, 8)),
    "conv_tbc": lambda: torch.conv_tbc(zeros(5, 2, 3), zeros(3, 3, 4), zeros(4)),
}
with torch.no_grad():
    for name, call in calls.items():
        seen(name, work(call), 0)
seen("nn.GRU", work(lambda: nn.GRU(8, 8)(zeros(4, 2, 8))), 2 * 4 * 2 * 8 * 8 * 6)
layer, x = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval(), torch.randn(2, 16, 64)
attention = nn.MultiheadAttention(64, 4, batch_first=True).eval()
seen("an encoder layer in eval()", work(lambda: layer(x)), 2_228_224)
with torch.no_grad():
    seen("the same without gradients", work(lambda: layer(x)), 0)
    seen("nn.MultiheadAttention in eval() without gradients", work(lambda: attention(x, x, x)), 0)
PYTHON

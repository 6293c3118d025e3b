#!/usr/bin/env bash
# Library: fvcore 0.1.5.post20221221, ptflops 0.7.5, thop 0.1.1.post2209072238, torchinfo 1.8.0, with torch 2.15.0.
# Guess: the counters that papers and model cards quote agree within some percent on a block of a Transformer.
# Behaviour: none counts scaled_dot_product_attention. thop and ptflops with hooks count modules only, so that a
#   product written as `x @ w` is 0. torchinfo counts a weight once per batch entry, not once per token. fvcore has nothing for
#   recurrent layers.
# Output seen: share of the multiply-adds of a Linear on 2 x 128 tokens, the same written with @, an attention block,
#   and nn.LSTM: fvcore 1, 1, 0.5, 0; ptflops 1, 0, 0.5, 1.02; thop 1, 0, 0.5, 1.02; torchinfo 0.01, 0.01, 0.00, 1.
# Source: https://github.com/TylerYep/torchinfo/issues/77 (corrected after 1.8.0, not released); the others found by running.
# Consequence: costs from such counters are wrong by the sequence length, or by the part that grows with its square. Count
#   by ops, and compare with a formula for one block.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" torch==2.15.0 numpy==2.4.6 fvcore==0.1.5.post20221221 ptflops==0.7.5 thop==0.1.1.post2209072238 torchinfo==1.8.0
python 2>/dev/null - <<'PYTHON'
import contextlib
import io

import thop
import torch
import torchinfo
from finding import seen
from fvcore.nn import FlopCountAnalysis
from ptflops import get_model_complexity_info
from torch import nn

x = torch.randn(2, 128, 64)


class Product(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 64))

    def forward(self, x):
        return x @ self.weight


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(64, 192, bias=False), nn.Linear(64, 64, bias=False)

    def forward(self, x):
        q, k, v = self.inner(x).view(2, 128, 3, 4, 16).permute(2, 0, 3, 1, 4)
        return self.outer(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        found = self.inner(x)
        return found[0] if isinstance(found, tuple) else found


tokens = 2 * 128
models = [
    (Wrapped(nn.Linear(64, 64, bias=False)), tokens * 64 * 64),
    (Product(), tokens * 64 * 64),
    (Attention(), tokens * 64 * 256 + 2 * tokens * 128 * 64),
    (Wrapped(nn.LSTM(64, 64, batch_first=True, bias=False)), tokens * 64 * 64 * 8),
]


def ptflops_of(model):
    one = get_model_complexity_info(model, (2, 128, 64), input_constructor=lambda _: {"x": x}, as_strings=False, print_per_layer_stat=False, backend="pytorch")
    return one[0]


counters = {
    "fvcore": (lambda model: FlopCountAnalysis(model, x).total(), [1.0, 1.0, 0.5, 0.0]),
    "ptflops": (ptflops_of, [1.0, 0.0, 0.5, 1.02]),
    "thop": (lambda model: thop.profile(model, (x,), verbose=False)[0], [1.0, 0.0, 0.5, 1.02]),
    "torchinfo": (lambda model: torchinfo.summary(model, input_data=[x], verbose=0).total_mult_adds, [0.01, 0.01, 0.0, 1.0]),
}
for name, (count, before) in counters.items():
    with contextlib.redirect_stdout(io.StringIO()):
        shares = [round(count(model) / work, 2) for model, work in models]
    seen(f"{name}: Linear, x @ w, attention, LSTM", shares, before)
PYTHON

#!/usr/bin/env bash
# Library: torch 2.15.0 (torch.utils.flop_counter, torch.profiler).
# Guess: the backward pass of a convolution is twice its forward pass, whatever its groups, and both tools of PyTorch agree.
# Behaviour: FlopCounterMode divides the forward pass and one of the two products of the backward pass by the groups; the
#   gradient of the weight counts as dense. The profiler's flops have no backward pass of convolutions at all, nor any
#   attention.
# Output seen: backward / forward 2 with 1 group, 9 with 8, 33 with 32 (depthwise); the profiler: 0 for the backward
#   pass, and 0 for scaled_dot_product_attention.
# Source: https://github.com/pytorch/pytorch/pull/183405 (closed) is about the division; torch/csrc/profiler/util.cpp has the ops.
# Consequence: by this counter MobileNets are tens of times too expensive to train, and the order of two GPUs turns round.
#   emplace divides by the groups in both directions; its tests do not take this counter for grouped convolutions.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" torch==2.15.0 numpy==2.4.6
python 2>/dev/null - <<'PYTHON'
import torch
from finding import seen
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode


def counted(call):
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def profiled(call):
    with profile(activities=[ProfilerActivity.CPU], with_flops=True) as recorded:
        call()
    return sum(event.flops for event in recorded.key_averages())


x = torch.randn(1, 32, 16, 16, requires_grad=True)
for groups, before in ((1, 2.0), (8, 9.0), (32, 33.0)):
    convolution = nn.Conv2d(32, 32, 3, padding=1, groups=groups, bias=False)
    forward, step = counted(lambda: convolution(x)), counted(lambda: convolution(x).sum().backward())
    seen(f"{groups} groups: backward / forward by the counter", step / forward - 1, before)
    forward, step = profiled(lambda: convolution(x)), profiled(lambda: convolution(x).sum().backward())
    seen(f"{groups} groups: backward / forward by the profiler", step / forward - 1, 0.0)
q = torch.randn(1, 4, 32, 16)
attend = lambda: nn.functional.scaled_dot_product_attention(q, q, q)
seen("attention by the counter and the profiler", (counted(attend), profiled(attend)), (4 * 4 * 32 * 32 * 16, 0))
PYTHON

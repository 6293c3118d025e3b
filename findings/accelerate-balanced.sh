#!/usr/bin/env bash
# Library: accelerate 1.15.0 (get_balanced_memory, which device_map="auto" and "balanced" use), with torch 2.15.0.
# Guess: GPUs of unlike memory get shares by their memory, and what fits on the GPUs stays on them.
# Behaviour: every GPU but the last gets an equal share of the model and some room for a buffer; only the last keeps all its
#   memory, which then may be the smallest one. What is left over goes to the CPU or the disk.
# Output seen: 16 equal layers, GPUs for 40, 40 and 3 layers: the first two are limited to 6.6 layers, and two layers
#   go to the disk, though either of them holds the whole model. In the other order, 3, 40, 40, nothing does.
# Source: https://github.com/huggingface/accelerate/pull/583 leaves the last GPU its memory on purpose.
# Consequence: name the largest GPU last (CUDA_VISIBLE_DEVICES), or pass max_memory and "sequential". emplace's device map
#   is searched on the machine as it is.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" torch==2.15.0 accelerate==1.15.0 numpy==2.4.6
python 2>/dev/null - <<'PYTHON'
from accelerate.utils import get_balanced_memory, infer_auto_device_map
from finding import seen
from torch import nn

LAYER = 256 * 256 * 4


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(256, 256, bias=False)

    def forward(self, x):
        return self.linear(x)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(16))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def layers_by_device(*memory):
    model = Network()
    limits = get_balanced_memory(model, {gpu: layers * LAYER for gpu, layers in enumerate(memory)})
    print("limits in layers:", {gpu: round(limit / LAYER, 1) for gpu, limit in limits.items()})
    found = list(infer_auto_device_map(model, max_memory=limits).values())
    return {device: found.count(device) for device in dict.fromkeys(found)}


seen("layers on GPUs for 40, 40, 3", layers_by_device(40, 40, 3), {0: 5, 1: 6, 2: 3, "disk": 2})
seen("layers on GPUs for 3, 40, 40", "disk" in layers_by_device(3, 40, 40), False)
PYTHON

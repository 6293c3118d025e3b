#!/usr/bin/env bash
# Library: accelerate 1.15.0 (dispatch_model), with torch 2.15.0.
# Guess: a module that a device map puts on "cpu", beside GPUs, is computed on the CPU.
# Behaviour: its weights stay on the CPU, but it is computed on the first GPU of the map, to which they are copied for each
#   call. Its parameters become meta tensors.
# Output seen: with the device "meta" in the place of a GPU: execution device and parameter of the module on "cpu" are
#   both meta.
# Source: https://huggingface.co/docs/accelerate/concept_guides/big_model_inference calls such weights offloaded.
# Consequence: time on the CPU in a plan is time of the link and of the GPU in truth, the GPU needs room for the copy, and such
#   modules are not trained. No map makes the CPU compute; emplace calls such a map lossy.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" torch==2.15.0 accelerate==1.15.0 numpy==2.4.6
python 2>/dev/null - <<'PYTHON'
import torch
from accelerate import dispatch_model
from finding import seen

network = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
dispatch_model(network, {"0": "meta", "1": "cpu"})
module = network[1]
seen("execution device of the module on the CPU", str(module._hf_hook.execution_device), "meta")
seen("device of its parameter", module.weight.device.type, "meta")
PYTHON

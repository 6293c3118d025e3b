#!/usr/bin/env bash
# Library: transformers 5.24.0 with accelerate 1.15.0 and torch 2.15.0.
# Guess: from_pretrained refuses a device map that leaves parameters out, and a key of a map means the module of that name.
# Behaviour: without offloading and with a single device, maps that are incomplete or name nothing are accepted. While weights
#   are loaded, the keys are one regular expression that is matched at the start of a parameter's name: "model.layers.1"
#   is also layers 10 to 19 where these have no key of their own, and parameters without a key go to the CPU.
# Output seen: {"nonsense": "cpu"} and {"model.embed_tokens": "cpu"} load; of layers 0, 1, 2, 10, 11 with keys for 0
#   and 1, layers 10 and 11 go where 1 goes, and 2 to the CPU.
# Source: expand_device_map in src/transformers/integrations/accelerate.py; found by running.
# Consequence: a wrong map shows as a full GPU or as slow layers, not as an error. A map must have a key for every layer, as those
#   that emplace writes.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" torch==2.15.0 transformers==5.24.0 accelerate==1.15.0 numpy==2.4.6
HF_HUB_OFFLINE=1 python 2>/dev/null - <<'PYTHON'
from finding import seen
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.integrations.accelerate import expand_device_map

sizes = dict(vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4)
LlamaForCausalLM(LlamaConfig(**sizes)).save_pretrained("model")
for device_map in ({"nonsense": "cpu"}, {"model.embed_tokens": "cpu"}):
    model = LlamaForCausalLM.from_pretrained("model", device_map=device_map)
    seen(f"{device_map} is accepted", {parameter.device.type for parameter in model.parameters()}, {"cpu"})
names = [f"model.layers.{layer}.mlp.weight" for layer in (0, 1, 2, 10, 11)]
found = expand_device_map({"model.layers.0": 0, "model.layers.1": 1}, names)
seen("devices of layers 0, 1, 2, 10, 11", list(found.values()), [0, 1, "cpu", 1, 1])
PYTHON

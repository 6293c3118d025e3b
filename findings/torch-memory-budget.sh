#!/usr/bin/env bash
# Library: torch 2.15.0 (torch._functorch.config.activation_memory_budget), on a CPU, as torch.compile partitions.
# Guess: a smaller budget takes less memory at the peak; 0.05 takes about 5 % and one layer.
# Behaviour: the budget bounds what the forward pass saves. What the backward pass recomputes is computed once and waits for
#   its readers there, and nothing bounds that. Below a budget that saves one tensor per layer, layers between two saved
#   ones are recomputed together, so that a smaller budget has a higher peak, and 0 that of keeping everything.
# Output seen: 12 layers of a GPT without attention; of what is saved, and of the peak, at budget 1: 0.5 and 0.55 at budget
#   0.5, 0.1 and 0.2 at 0.1, 0.05 and 0.57 at 0.05, 0.02 and 0.86 at 0.02, nothing and 1.0 at 0, where all runs twice.
# Source: https://github.com/pytorch/pytorch/issues/197838 for peaks on a GPU; torch/_functorch/config.py has what is saved.
# Consequence: a search for the largest budget that fits must not bisect, and where memory is scarce a budget
#   bounds little of the peak. Plans of emplace bound the peak of the step.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" torch==2.15.0 numpy==2.4.6
python - <<'PYTHON'
import torch
from finding import seen
from torch import nn
from torch._functorch import config
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def storages(node):
    values = node.meta.get("val")
    values = values if isinstance(values, (tuple, list)) else [values]
    return {v.untyped_storage()._cdata: v.untyped_storage().nbytes() for v in values if isinstance(v, torch.Tensor)}


def peak(graph, there):
    """Bytes at the peak of a graph whose values end with their last reader, besides those of `there` and gradients."""
    *nodes, _ = graph.nodes
    last = {key: node for node in nodes for each in (node, *node.all_input_nodes) for key in storages(each)}
    live, most = {}, 0
    for node in nodes:
        live |= {key: size for key, size in storages(node).items() if key not in there}
        most = max(most, sum(live.values()))
        live = {key: size for key, size in live.items() if last[key] is not node}
    return most


def measured(budget):
    """Bytes that wait between forward and backward pass, and at the peak of the backward pass."""
    config.activation_memory_budget = budget
    torch.manual_seed(1)
    model, x = nn.Sequential(*[Layer() for _ in range(12)]), torch.randn(1024, 64)
    state, graphs = dict(model.named_parameters()), []

    def keep(graph, inputs):
        graphs.append(graph.graph)
        return graph

    def loss(state, x):
        return torch.func.functional_call(model, state, (x,)).square().mean()

    aot_function(loss, keep, keep, min_cut_rematerialization_partition)(state, x).backward()
    forward, backward = graphs
    names = {node.name for node in forward.nodes if node.op == "placeholder"}
    read = [node for node in backward.nodes if node.op == "placeholder"]
    inputs = {key for node in [*forward.nodes, *read] if node.name in names for key in storages(node)}
    saved = {key: size for node in read for key, size in storages(node).items() if key not in inputs}
    return sum(saved.values()), peak(backward, inputs)


saved_of_all, peak_of_all = measured(1.0)
for budget, before in {0.5: (0.5, 0.55), 0.1: (0.1, 0.2), 0.05: (0.05, 0.57), 0.02: (0.02, 0.86), 0.0: (0.0, 1.0)}.items():
    saved, most = measured(budget)
    seen(f"budget {budget}: of what is saved, of the peak", (round(saved / saved_of_all, 2), round(most / peak_of_all, 2)), before)
PYTHON

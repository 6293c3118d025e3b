#!/usr/bin/env bash
# Library: torch 2.15.0 (torch.export).
# Guess: a weight with two names is one input of an exported program, and one parameter after it was saved and loaded.
# Behaviour: each name is an input; all readers use the last one, and the first has none. The module of a loaded program has two
#   parameters on one storage; unflatten() ties them again.
# Output seen: embedding and head tied: p_emb_weight with 0 readers, p_head_weight with 2; parameters() gives 2 for
#   the loaded module (one never gets a gradient), 1 for the exported module and after unflatten().
# Source: found by running; https://docs.pytorch.org/docs/stable/export.html describes the signature.
# Consequence: memory and parameters of such a file count twice, and an optimizer over parameters() has a state for a
#   weight without gradients. emplace counts names of one storage once in .pt2 and FX.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" torch==2.15.0 numpy==2.4.6
python 2>/dev/null - <<'PYTHON'
import torch
from finding import seen
from torch import nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.head = nn.Embedding(100, 16), nn.Linear(16, 100, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, x):
        return self.head(self.emb(x))


program = torch.export.export(Tied(), (torch.arange(8),))
readers = {node.name: len(node.users) for node in program.graph.nodes if node.op == "placeholder"}
seen("readers of the inputs", readers, {"p_emb_weight": 0, "p_head_weight": 2, "x": 1})
torch.export.save(program, "program.pt2")
loaded = torch.export.load("program.pt2")


def parameters(module):
    module(torch.arange(8)).sum().backward()
    found = list(module.parameters())
    return len(found), sum(parameter.grad is not None for parameter in found), len({parameter.data_ptr() for parameter in found})


seen("exported module: parameters, with gradient, storages", parameters(program.module()), (1, 1, 1))
seen("loaded module", parameters(loaded.module()), (2, 1, 1))
seen("loaded and unflattened", parameters(torch.export.unflatten(loaded)), (1, 1, 1))
PYTHON

#!/usr/bin/env bash
# Library: torch 2.15.0 (torch.distributed.pipelining).
# Guess: pipeline() keeps a tied weight once in a stage; a stage follows train() and eval(); a split point that cannot be used
#   is an error.
# Behaviour: a stage holds a copy for every name, so that a weight tied across two stages exists three times, with a list of
#   them (replicated_params) but no warning, and no stage adds up their gradients. A stage that was cut in train()
#   keeps its dropout after eval(), without an error. A split point at a container that is not called, such as a
#   ModuleList, gives one stage.
# Output seen: emb.weight and head.weight in stage 0 on two storages, head.weight in stage 1; two calls after eval()
#   differ; 1 stage.
# Source: https://docs.pytorch.org/docs/stable/distributed.pipelining.html states that a model is traced; found by running.
# Consequence: call eval() before pipeline(), name a block as a split point, and count stages. Memory of stages with ties is
#   larger than the model's. emplace writes split points at modules that are called.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" torch==2.15.0 numpy==2.4.6
python 2>/dev/null - <<'PYTHON'
import torch
from finding import seen
from torch import nn
from torch.distributed.pipelining import SplitPoint, pipeline


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.dropout = nn.Linear(8, 8), nn.Dropout(0.5)

    def forward(self, x):
        return x + self.dropout(self.linear(x))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.layers, self.head = nn.Embedding(10, 8), nn.ModuleList(Block() for _ in range(4)), nn.Linear(8, 10, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, x):
        x = self.emb(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


x = torch.zeros(2, 4, dtype=torch.long)


def cut(where):
    return pipeline(Network().train(), (x,), split_spec={where: SplitPoint.BEGINNING})


stages = [cut("layers.2").get_stage_module(stage) for stage in range(2)]
tied = [{name: weight.data_ptr() for name, weight in stage.named_parameters() if weight.shape == (10, 8)} for stage in stages]
seen("names of the tied weight by stage", [sorted(names) for names in tied], [["emb.weight", "head.weight"], ["head.weight"]])
seen("storages in stage 0", len(set(tied[0].values())), 2)
stage = stages[0].eval()
first, second = stage(x), stage(x)
seen("training, and equal results after eval()", (stage.training, torch.equal(*(y[0] if isinstance(y, tuple) else y for y in (first, second)))), (False, False))
seen("stages with a split point at the ModuleList", cut("layers").num_stages, 1)
PYTHON

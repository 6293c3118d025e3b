"""The arguments of the step that is traced."""

from __future__ import annotations

import torch
from torch.fx import Node

from emplace.tracing.recorder import Recorder
from emplace.tracing.step import Slot, StepInput


class Arguments:
    """The placeholders of a step, and the fake tensors that stand for the tensors of its model."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.inputs: list[StepInput] = []
        self.slots: dict[str, Slot] = {}
        #: By the id of the user's tensor.
        self.fakes: dict[int, torch.Tensor] = {}
        self.names: dict[int, str] = {}

    def add(self, entry: StepInput, fake: torch.Tensor, scope: str, slot: Slot | None) -> Node:
        """A placeholder; its op's name is made unique."""
        taken = {i.op for i in self.inputs} if entry.kind == "input" else ()
        op = entry.op
        while op in self.slots or op in taken:
            op += "_"
        self.inputs.append(StepInput(entry.kind, entry.name, entry.parameter, op))
        owner = entry.parameter or (entry.name if entry.kind == "parameter" else None)
        node = self.recorder.placeholder(entry.name, fake, owner)
        node.meta["scope"] = scope
        if slot is not None:
            self.slots[op] = slot
        return node

"""A model as stages of a pipeline, as the program cuts it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from emplace.graph import Graph
from emplace.patterns import modules_of
from emplace.program import Json

STATE = frozenset({"Parameter", "Buffer", "OptimizerState", "Input", "Constant"})


@dataclass(frozen=True)
class Stage:
    """Consecutive modules of the forward pass, with their backward pass and update."""

    index: int
    device: str
    """The device that runs it."""
    starts_at: str
    """The module before which the model is cut, as PyTorch names it; empty for the first stage."""
    modules: tuple[str, ...]
    """The outermost modules that lie in it as a whole."""
    ops: tuple[str, ...]
    """Names of its ops of the forward pass."""
    time_s: float
    """Time of all its ops on its device: the slowest stage decides how often a pipeline takes a batch."""
    state_bytes: int
    """Bytes that its parameters, buffers and optimizer state keep, with its copies of weights that other
    stages have, too."""
    memory_bytes: int
    """Bytes of memory at the peak of a step, on its device."""


@dataclass(frozen=True)
class Stages(Sequence[Stage]):
    """The stages in the order in which they run."""

    stages: tuple[Stage, ...]

    def __len__(self) -> int:
        return len(self.stages)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages)

    def __getitem__(self, index: Any) -> Any:
        return self.stages[index]

    @property
    def slowest_s(self) -> float:
        """Time of the slowest stage: what a full pipeline takes per batch."""
        return max(stage.time_s for stage in self.stages)

    @property
    def split_spec(self) -> dict[str, str]:
        """The argument for torch.distributed.pipelining: ``{module: SplitPoint[point] for module, point in
        spec.items()}``."""
        return {stage.starts_at: "BEGINNING" for stage in self.stages[1:]}


def stages_of(graph: Graph, exported: Json) -> Stages:
    """The stages that ``emplace export --to pipelining`` reports."""
    forward = [op for op in graph.ops if op.phase == "forward" and op.type not in STATE]
    stages: list[Stage] = []
    spans: dict[str, tuple[int, int]] = {}
    for position, op in enumerate(forward):
        for module in modules_of(op.scope):
            spans[module] = (spans.get(module, (position,))[0], position)
    begin = 0
    for index, stage in enumerate(exported["stages"]):
        end = begin + stage["ops"]
        whole = {module for module, (first, last) in spans.items() if begin <= first and last < end}
        stages.append(
            Stage(
                index=index,
                modules=tuple(
                    module for module in spans if module in whole and module.rpartition(".")[0] not in whole
                ),
                ops=tuple(op.name for op in forward[begin:end]),
                **{name: stage[name] for name in _GIVEN},
            )
        )
        begin = end
    return Stages(tuple(stages))


_GIVEN = ("device", "starts_at", "time_s", "state_bytes", "memory_bytes")

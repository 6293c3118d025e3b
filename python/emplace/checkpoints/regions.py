"""Regions of a forward pass: the calls of a module, and what each of them does when the module runs again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Set
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from emplace.graph import Graph
from emplace.stages import STATE
from emplace.tracing.calls import ALIASES

if TYPE_CHECKING:
    from emplace.tracing.step import TracedStep

Output = tuple[str, int]


class Decision(Enum):
    """What a call does when its region runs again."""

    RUN = "run"
    """It runs: an op of the plan, a view, or a call that is no op."""
    KEEP = "keep"
    """Its outputs have waited."""
    SKIP = "skip"
    """Nothing needs its outputs."""


class Ops:
    """The ops of a traced graph, and their readers, also those by a view."""

    def __init__(self, graph: Graph) -> None:
        self._by_id = {op.id: op for op in graph.ops}
        self._views = {
            op.id for op in graph.ops if op.attrs.get("view") or op.type.rpartition("::")[2] in ALIASES
        }
        self.kernels: set[str] = set()
        """Ops of the forward pass that compute something."""
        self.reads: dict[str, list[Output]] = {}
        """Op -> outputs of kernels and state."""
        self.early: dict[str, set[str]] = defaultdict(set)
        """Op -> ops of the forward pass that read it."""
        self.late: set[Output] = set()
        """What ops behind the forward pass read."""
        for op in graph.ops:
            if op.type in STATE or op.id in self._views:
                continue
            self.reads[op.name] = [self._root(*source) for source in op.inputs]
            if op.phase != "forward":
                self.late.update(self.reads[op.name])
                continue
            self.kernels.add(op.name)
            for name, _ in self.reads[op.name]:
                self.early[name].add(op.name)

    def _root(self, producer: int, output: int) -> Output:
        while producer in self._views and self._by_id[producer].inputs:
            producer, output = self._by_id[producer].inputs[0]
        return self._by_id[producer].name, output


@dataclass(frozen=True)
class Decided:
    """The decisions for the calls of a region."""

    calls: tuple[Decision, ...]
    outputs: tuple[frozenset[int] | None, ...]
    """Outputs of each call that are needed; None: all."""
    again: frozenset[str]
    """Ops that run again."""


class Region:
    """One call of a module."""

    def __init__(self, step: TracedStep, module: str, begin: int, end: int) -> None:
        self.module, self.calls = module, tuple(step.log.calls[begin:end])
        self.ops = [tuple(step.op_of[n] for n in call.nodes if n in step.op_of) for call in self.calls]
        self.inside = {op for ops in self.ops for op in ops}
        self.unit = list(range(len(self.calls)))
        """The call that made the tensor that a call writes to; it itself if it writes to none."""
        self.updates: set[int] = set()
        """Calls that write to buffers of the model."""
        self.foreign = False
        """Whether it writes to tensors that were made outside of it: then it cannot run again."""
        nodes = {node.name: node for node in step.module.graph.nodes}
        makers = {node: index for index, call in enumerate(self.calls) for node in call.nodes}
        for index, call in enumerate(self.calls):
            for name in () if call.view else call.writes:
                while name in makers and self.calls[makers[name]].alias:
                    name = nodes[name].all_input_nodes[0].name
                if name in makers:
                    self.unit[index] = self.unit[makers[name]]
                elif name in nodes and nodes[name].op == "placeholder":
                    self.updates.add(index)
                else:
                    self.foreign = True
        self._size = Counter(self.unit)
        self.result = {unit: made[-1] for unit, made in zip(self.unit, self.ops) if made}
        """Unit -> the op whose output its tensor is at the end."""

    def decide(self, ops: Ops, wanted: Set[str], *, by_policy: bool = False) -> Decided:
        """Which calls run again so that the ops that are wanted do, as far as the backward pass needs them.

        Ops whose outputs leave the region are kept: what reads them keeps them, too. All writes to a tensor
        run again, or none. By a policy of torch every call runs again or is kept, updates of buffers cannot
        run again, and random numbers repeat only if all before them are drawn again.
        """
        wanted = {op for op in wanted & self.inside & ops.kernels if ops.early[op] <= self.inside}
        if by_policy:
            wanted -= {op for index in self.updates for op in self.ops[index]}
        late, first = {name for name, _ in ops.late}, set[int]()
        for index, made in reversed(list(enumerate(self.ops))):
            for op in wanted & late & set(made):
                first.add(self.unit[index])
                late.update(name for name, _ in ops.reads[op])
        first |= self._overwritten(ops, first)
        running = [index for index, unit in enumerate(self.unit) if unit in first]
        needed = ops.late | {read for i in running for op in self.ops[i] for read in ops.reads.get(op, ())}
        names: dict[str, set[int]] = defaultdict(set)
        for name, output in needed:
            names[name].add(output)
        kept = {self.unit[index] for index, made in enumerate(self.ops) if not names.keys().isdisjoint(made)}
        found = []
        for index, call in enumerate(self.calls):
            no_op = self._size[self.unit[index]] == 1 and ops.kernels.isdisjoint(self.ops[index])
            if self.unit[index] in first or call.view or call.alias or no_op and index not in self.updates:
                found.append(Decision.RUN)
            elif self.unit[index] in kept or by_policy and index in self.updates:
                found.append(Decision.KEEP)
            else:
                found.append(Decision.RUN if by_policy else Decision.SKIP)
        if by_policy:
            random = [index for index, call in enumerate(self.calls) if call.random]
            last = max((index for index in random if found[index] is Decision.RUN), default=-1)
            drawn = {self.unit[index] for index in random if index < last}
            found = [Decision.RUN if unit in drawn else each for unit, each in zip(self.unit, found)]
        outputs = [
            frozenset(names.get(made[0], ()))
            if len(made) == 1 and not call.writes and self._size[index] == 1
            else None
            for index, (made, call) in enumerate(zip(self.ops, self.calls))
        ]
        again = {op for made, each in zip(self.ops, found) if each is Decision.RUN for op in made}
        return Decided(tuple(found), tuple(outputs), frozenset(again & ops.kernels))

    def _overwritten(self, ops: Ops, again: set[int]) -> set[int]:
        """Units with a value that a call reads that runs again, and that a later write replaces."""
        found: set[int] = set()
        for last, first in enumerate(self.unit):
            made = {op for i in range(first, last) if self.unit[i] == first for op in self.ops[i]}
            for reader in range(first + 1, last):
                reads = {name for op in self.ops[reader] for name, _ in ops.reads.get(op, ())}
                if self.unit[reader] in (again | found) - {first} and not made.isdisjoint(reads):
                    found.add(first)
        return found


def regions_of(step: TracedStep, module: str) -> list[Region]:
    """The calls of a module, in order."""
    visits = [visit for visit in step.log.visits if visit.module == module]
    return [Region(step, module, visit.begin, visit.end) for visit in visits if visit.end is not None]


def layers_of(step: TracedStep) -> list[list[str]]:
    """Modules that do not overlap, by their depth: the model, its parts, their parts, …"""
    called = sorted({visit.module for visit in step.log.visits if visit.end != visit.begin})
    depth = {name: name.count(".") + 1 if name else 0 for name in called}
    leaves = {name for name in called if not any(other.startswith(f"{name}.") for other in called)}
    return [
        [n for n in called if depth[n] == layer or depth[n] < layer and n in leaves and n]
        for layer in range(max(depth.values(), default=-1) + 1)
    ]

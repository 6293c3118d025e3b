"""A traced step of one micro-batch as the step of several, whose gradients are added up.

Names are those of the program (``placement/pipeline/unrolled.h``): the op ``mm`` of micro-batch 3 is
``mm@3``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from emplace.applying.lowering import is_view
from emplace.applying.planning import PlannedStep
from emplace.errors import EmplaceError
from emplace.tracing.step import StepInput, StepOutput


@dataclasses.dataclass(frozen=True)
class MicroBatches:
    """The strategy of a placement, as far as a step in one process obeys it."""

    count: int
    #: "1f1b" or "gpipe" (docs/reference/pipelines.md).
    schedule: str = "1f1b"


class _Batches:
    """A batch that is a list of micro-batches."""

    def __init__(self, spec: Any, count: int) -> None:
        self._spec, self._count = spec, count

    def flatten(self, batch: Any) -> list[torch.Tensor]:
        if not isinstance(batch, (list, tuple)) or len(batch) != self._count:
            has = f"has {len(batch)}" if isinstance(batch, (list, tuple)) else f"is a {type(batch).__name__}"
            raise EmplaceError(
                "batch",
                f"{has}, the placement has {self._count} micro-batches",
                "pass a list with a batch like the traced one for each",
            )
        leaves: list[torch.Tensor] = []
        for number, one in enumerate(batch):
            try:
                leaves += self._spec.flatten(one)
            except EmplaceError as error:
                raise EmplaceError(f"micro-batch {number}, {error.where}", error.what, error.cure) from None
        return leaves


def micro_batched(
    planned: PlannedStep, placement: Mapping[str, str], micro_batches: MicroBatches
) -> tuple[PlannedStep, dict[str, str]]:
    """The step of all micro-batches, and the devices of its ops.

    It has the bits of a loop that calls ``backward()`` for each micro-batch and the optimizer once: each
    gradient is the sum, in their order, and the loss is the sum of their losses. What the forward pass
    writes, such as statistics, goes from one micro-batch to the next, and random numbers are drawn in their
    order.

    Tasks wait only for those of the same or earlier micro-batches, so that they never wait for each other in
    a circle. In ``1f1b`` a forward pass also waits while too many of its micro-batches have not returned; in
    ``gpipe`` backward passes wait for all forward passes of their device (not if backward passes draw random
    numbers, whose order decides the bits). Raises EmplaceError for an update that reads what is no gradient.
    """
    unrolled = _Unroller(planned, placement, micro_batches)
    return unrolled.run(), unrolled.placement


class _Unroller:
    def __init__(
        self, planned: PlannedStep, placement: Mapping[str, str], micro_batches: MicroBatches
    ) -> None:
        self._planned, self._step, self._old = planned, planned.step, placement
        self._count, self._schedule = micro_batches.count, micro_batches.schedule
        self.placement: dict[str, str] = {}
        self._graph = Graph()
        self._once: dict[Node, Node] = {}
        self._copies: list[dict[Node, Node]] = [{} for _ in range(self._count)]
        self._op_of: dict[str, str] = {}
        self._random: set[str] = set()
        #: Gradient or loss of a micro-batch -> the sum so far.
        self._sums: dict[Node, Node] = {}
        self._triggers: dict[Node, Node] = {}
        nodes = list(self._step.module.graph.nodes)
        self._constants = [node for node in nodes if node.op == "get_attr"]
        calls = [node for node in nodes if node.op == "call_function"]
        self._forward = [node for node in calls if _phase(node) == "forward"]
        self._backward = [node for node in calls if _phase(node) == "backward"]
        self._update = [node for node in calls if _phase(node) == "update"]
        self._output: Node = nodes[-1]
        self._inputs = dict(zip((n for n in nodes if n.op == "placeholder"), self._step.inputs))
        #: State that forward or backward pass write -> its new value.
        self._carried = self._found_carried()

    def run(self) -> PlannedStep:
        inputs = self._take_state()
        late = {name for name in self._step.random_nodes} & {node.name for node in self._backward}
        barrier = self._schedule == "gpipe" and late <= {node.name for node in self._planned.repeats}
        waits = self._waits()
        gradients = set(self._gradients())
        losses = {node for output, node in self._results() if output.kind == "loss"}
        for nodes in (self._forward, self._backward) if barrier else ([*self._forward, *self._backward],):
            for number in range(self._count):
                for node in nodes:
                    self._trigger(self._copy(node, number), node, number, barrier, waits)
                    if node in gradients:
                        self._add(node, number, "accumulate", "backward")
                    if node in losses:
                        self._add(node, number, "sum", "forward")
        for node in self._update:
            self._once[node] = self._made(node, node.name, lambda n: self._sums.get(n) or self._once[n])
            self._name(self._once[node], node, None)
        self._graph.output(tuple(self._result(node) for _, node in self._results()))
        sums = {node.name: total.name for node, total in self._sums.items()}
        step = dataclasses.replace(
            self._step,
            module=GraphModule(self._step.module, self._graph),
            inputs=inputs,
            op_of=self._op_of,
            random_nodes=self._random,
            gradients={name: sums[node] for name, node in self._step.gradients.items() if node in sums},
            batch_spec=_Batches(self._step.batch_spec, self._count),  # type: ignore[arg-type]
        )
        repeats = {
            copies[again]: copies[first]
            for copies in self._copies
            for again, first in self._planned.repeats.items()
        }
        return PlannedStep(step, self._triggers, repeats)

    # What there is.

    def _results(self) -> Iterable[tuple[StepOutput, Node]]:
        flat: Any = self._output.args[0]
        return zip(self._step.outputs, flat)

    def _found_carried(self) -> dict[Node, Node]:
        at: dict[tuple[str, str], Node] = {
            (entry.kind, entry.name): node for node, entry in self._inputs.items()
        }
        found = {}
        for output, node in self._results():
            target = at.get((output.kind, output.name))
            if target is not None and node.op == "call_function" and _phase(node) != "update":
                found[target] = node
        return found

    def _gradients(self) -> Iterable[Node]:
        """What the update reads of the backward pass, each once."""
        known = set(self._step.gradients.values())
        found: dict[Node, None] = {}
        for node in self._update:
            for read in node.all_input_nodes:
                if read.op != "call_function" or _phase(read) == "update":
                    continue
                if read.name not in known:
                    raise EmplaceError(
                        f"op '{self._step.op_of.get(node.name, node.name)}'",
                        f"reads '{self._step.op_of.get(read.name, read.name)}', which is no gradient",
                        "micro-batches need an update that reads gradients and state alone",
                    )
                found[read] = None
        return found

    def _maker(self, node: Node) -> Node | None:
        """The node that computes what a node is, or is a view of; None for state and constants."""
        while node.op == "call_function":
            if self._computes(node):
                return node
            sources = [n for n in node.all_input_nodes if not n.meta.get("scalar")]
            if not sources:
                return None
            node = sources[0]
        return None

    def _computes(self, node: Node) -> bool:
        return node.name in self._step.op_of and not is_view(node)

    # Copies.

    def _take_state(self) -> list[StepInput]:
        """Placeholders and constants, each once; a batch's tensors for each micro-batch."""
        inputs: list[StepInput] = []
        fed = [node for node, entry in self._inputs.items() if entry.kind == "input"]
        for node, entry in self._inputs.items():
            if entry.kind != "input":
                self._once[node] = self._made(node, node.name, self._once.__getitem__)
                inputs.append(entry)
                self.placement[entry.op] = self._old[entry.op]
        for number in range(self._count):
            for node in fed:
                entry = self._inputs[node]
                self._copies[number][node] = self._made(node, f"{node.name}_{number}", self._once.__getitem__)
                inputs.append(dataclasses.replace(entry, op=f"{entry.op}@{number}"))
                self.placement[inputs[-1].op] = self._old[entry.op]
        for node in self._constants:
            self._once[node] = self._made(node, node.name, self._once.__getitem__)
            self._name(self._once[node], node, None)
        return inputs

    def _read(self, number: int) -> Callable[[Node], Node]:
        """What a micro-batch reads in place of a node."""
        copies = self._copies[number]

        def read(node: Node) -> Node:
            if node in self._carried and number > 0:
                return self._copies[number - 1][self._carried[node]]
            return copies.get(node) or self._once[node]

        return read

    def _copy(self, node: Node, number: int) -> Node:
        made = self._made(node, f"{node.name}_{number}", self._read(number))
        self._copies[number][node] = made
        self._name(made, node, number)
        return made

    def _made(self, node: Node, name: str, read: Callable[[Node], Node]) -> Node:
        arguments, keywords = map_arg((node.args, node.kwargs), read)
        made: Node = self._graph.create_node(node.op, node.target, arguments, keywords, name, node.type)
        made.meta = dict(node.meta)
        if made.op == "placeholder":
            made.target = made.name  # The name of the argument.
        return made

    def _name(self, made: Node, node: Node, number: int | None) -> None:
        """Lets a copy be the op that its node is."""
        end = "" if number is None else f"@{number}"
        if node.name in self._step.op_of:
            op = self._step.op_of[node.name]
            self._op_of[made.name] = op + end
            self.placement[op + end] = self._old[op]
        if node.name in self._step.random_nodes:
            self._random.add(made.name)

    def _add(self, node: Node, number: int, word: str, phase: str) -> None:
        """Adds a tensor of a micro-batch to the sum of those before."""
        if number == 0:
            self._sums[node] = self._copies[0][node]
            return
        maker = self._maker(node)
        assert maker is not None
        op = self._step.op_of[maker.name]
        terms = (self._sums[node], self._copies[number][node])
        total = self._graph.create_node(
            "call_function", torch.ops.aten.add.Tensor, terms, {}, f"{node.name}_{word}_{number}"
        )
        total.meta = {**node.meta, "phase": phase}
        self._op_of[total.name] = f"{op}@{word}@{number}"
        self.placement[f"{op}@{word}@{number}"] = self._old[op]
        self._sums[node] = total

    def _result(self, node: Node) -> Node:
        """An output of the step."""
        return self._sums.get(node) or self._once.get(node) or self._copies[-1][node]

    # The schedule.

    def _waits(self) -> dict[Node, tuple[Node, int]]:
        """Kernel of the forward pass -> the last one of the backward pass of its stage, and how many
        micro-batches may be between them (``placement/pipeline/pipeline_order.h``)."""
        level: dict[Node, int] = {}
        device: dict[Node, str] = {}
        kernels: dict[str, list[Node]] = {}
        for node in (*self._forward, *self._backward):
            if not self._computes(node):
                maker = self._maker(node)
                if maker is not None:
                    level[node], device[node] = level[maker], device[maker]
                continue
            device[node] = self._old[self._step.op_of[node.name]]
            known = [n for n in node.all_input_nodes if n in level]
            level[node] = max((level[n] + (device[n] != device[node]) for n in known), default=0)
            if _phase(node) == "backward":
                kernels.setdefault(device[node], []).append(node)
        stages = 1 + max((level[node] for node in self._forward if node in level), default=0)
        lasts: dict[tuple[str, int], Node | None] = {}
        found = {}
        for node in filter(self._computes, self._forward):
            key = device[node], 2 * (stages - 1) - level[node]
            if key not in lasts:
                behind = [n for n in kernels.get(key[0], ()) if level[n] <= key[1]]
                lasts[key] = behind[-1] if behind else None
            last = lasts[key]
            if last is not None:
                found[node] = last, stages - level[node]
        return found

    def _trigger(
        self, made: Node, node: Node, number: int, barrier: bool, waits: Mapping[Node, tuple[Node, int]]
    ) -> None:
        """What a copy waits for besides what it reads."""
        if node in self._planned.triggers:
            self._triggers[made] = self._copies[number][self._planned.triggers[node]]
        elif self._schedule == "1f1b" and node in waits:
            behind, most = waits[node]
            if number >= most:
                self._triggers[made] = self._copies[number - most][behind]
        elif barrier and _phase(node) == "backward" and self._computes(node):
            last = self._last_forward.get(self._old[self._step.op_of[node.name]])
            if last is not None:
                self._triggers[made] = self._copies[-1][last]

    @functools.cached_property
    def _last_forward(self) -> dict[str, Node]:
        """Device -> its last kernel of the forward pass."""
        kernels = [node for node in self._forward if self._computes(node)]
        return {self._old[self._step.op_of[node.name]]: node for node in kernels}


def _phase(node: Node) -> str:
    return str(node.meta.get("phase", "forward"))

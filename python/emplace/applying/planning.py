"""A traced step with the ops of a memory plan in it.

The program decides which ops run again, and before which op (``graph/memory_plan.h``); its graph of the
plan is followed here node by node. An op that runs again is a copy of its node, a fetch hands a tensor that
waited elsewhere over to its readers.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

if TYPE_CHECKING:
    from emplace.tracing.step import TracedStep

#: End of the name of an op that runs again, and the types of the other ops that a plan adds.
AGAIN = "@again"
_FETCH, _WAIT, _ENDED = "emplace::fetch", "emplace::wait", "emplace::ended"


def fetch(tensor: torch.Tensor) -> torch.Tensor:
    """A fetch: the tensor itself, whose copies to other devices start when this has run."""
    return tensor


@dataclasses.dataclass(frozen=True)
class PlannedStep:
    """A step with the ops of a plan."""

    step: TracedStep
    #: Op that runs again or fetch -> the node at whose end it may run.
    triggers: dict[Node, Node]
    #: Random node that runs again -> the node whose random numbers it draws once more.
    repeats: dict[Node, Node]


def planned_step(step: TracedStep, ops: Sequence[Mapping[str, Any]]) -> PlannedStep:
    """The step with the ops of a plan; ``ops`` are those of the plan's graph file."""
    return _Planner(step, ops).run()


def planned_placement(placement: Mapping[str, str], ops: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The devices of the ops of a step with a plan; a fetch is where its tensor waits."""
    found = dict(placement)
    for op in ops:
        name = str(op["name"])
        if name.endswith(AGAIN):
            found[name] = placement[name.removesuffix(AGAIN)]
        elif op["type"] == _FETCH:
            found[name] = op["devices"][0]
    return found


class _Planner:
    def __init__(self, step: TracedStep, ops: Sequence[Mapping[str, Any]]) -> None:
        self._step = step
        self._ops = {int(op["id"]): op for op in ops}
        self._node_of = {
            step.op_of[node.name]: node for node in step.module.graph.nodes if node.name in step.op_of
        }
        self._graph = Graph()
        self._copies: dict[Node, Node] = {}
        #: Node of the step -> what readers of the backward pass read instead.
        self._twins: dict[Node, Node] = {}
        self._op_of = dict(step.op_of)
        self._random = set(step.random_nodes)
        self._triggers: dict[Node, Node] = {}
        self._repeats: dict[Node, Node] = {}
        #: Op of the step -> ops of the plan that come before it.
        self._before: dict[str, list[Mapping[str, Any]]] = {}
        added: list[Mapping[str, Any]] = []
        for op in ops:
            if str(op["name"]).endswith(AGAIN) or op["type"] == _FETCH:
                added.append(op)
            elif op["type"] not in (_WAIT, _ENDED) and added:
                self._before[str(op["name"])] = added
                added = []

    def run(self) -> PlannedStep:
        step = self._step
        for node in step.module.graph.nodes:
            name = step.op_of.get(node.name)
            for op in self._before.get(name or "", ()):
                self._add(op)
            late = name is not None and node.meta.get("phase", "forward") != "forward"
            read = self._late if late else self._copies.__getitem__
            self._copies[node] = self._copy(node, node.name, read)
        module = GraphModule(step.module, self._graph)
        changed = dataclasses.replace(step, module=module, op_of=self._op_of, random_nodes=self._random)
        return PlannedStep(changed, self._triggers, self._repeats)

    def _late(self, node: Node) -> Node:
        """What the backward pass reads in place of a node."""
        known = self._twins.get(node)
        if known is not None:
            return known
        if node.name in self._step.op_of or node.op != "call_function":
            return self._copies[node]
        inputs = [self._late(argument) for argument in node.all_input_nodes]
        if all(now is self._copies[before] for now, before in zip(inputs, node.all_input_nodes)):
            return self._copies[node]
        # An item of a result, or another node that is no op, of what was made again.
        return self._twin(node)

    def _copy(self, node: Node, name: str, read: Callable[[Node], Node]) -> Node:
        """A copy that is called `name`: ops are known by the names of their nodes."""
        arguments, keywords = map_arg((node.args, node.kwargs), read)
        made: Node = self._graph.create_node(node.op, node.target, arguments, keywords, name, node.type)
        made.meta = dict(node.meta)
        return made

    def _twin(self, node: Node) -> Node:
        for argument in node.all_input_nodes:
            self._late(argument)  # It may have to be copied first.
        made = self._copy(node, f"{node.name}_again", self._late)
        if "phase" in made.meta:
            made.meta["phase"] = "backward"
        self._twins[node] = made
        return made

    def _add(self, op: Mapping[str, Any]) -> None:
        name = str(op["name"])
        if name.endswith(AGAIN):
            node = self._node_of[name.removesuffix(AGAIN)]
            made = self._twin(node)
            if node.name in self._step.random_nodes:
                self._random.add(made.name)
                self._repeats[made] = self._copies[node]
        else:
            node = self._item(*op["inputs"][0])
            made = self._graph.create_node(
                "call_function", fetch, (self._copies[node],), {}, f"{node.name}_fetch"
            )
            made.meta = {**node.meta, "phase": "backward"}
            self._twins[node] = made
        self._op_of[made.name] = name
        trigger = self._trigger(op)
        if trigger is not None:
            self._triggers[made] = self._copies[self._node_of[trigger]]

    def _item(self, producer: int, output: int) -> Node:
        """The node of an output of an op."""
        node = self._node_of[str(self._ops[producer]["name"])]
        items: list[Node] = [
            user for user in node.users if user.target is operator.getitem and user.args[1] == output
        ]
        return items[0] if items else node

    def _trigger(self, op: Mapping[str, Any]) -> str | None:
        """The op at whose end an op of the plan may run; None: it follows from what it reads."""
        for producer, _ in op["inputs"]:
            read = self._ops[producer]
            if read["type"] == _WAIT:
                read = self._ops[read["inputs"][1][0]]
            if read["type"] == _ENDED:
                return str(self._ops[read["inputs"][0][0]]["name"])
        return None

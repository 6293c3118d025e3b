"""The optimizer's part of a step."""

from __future__ import annotations

from operator import getitem
from typing import Any

import torch
from torch.fx import Node

from emplace.errors import EmplaceError
from emplace.tracing import compat
from emplace.tracing.arguments import Arguments
from emplace.tracing.optimizers import (
    StateKind,
    WholeStep,
    copy_of,
    first_states,
    later_state,
    negative_zero,
    no_elements,
    step_of,
)
from emplace.tracing.recorder import value_of
from emplace.tracing.refusal import Branches
from emplace.tracing.scalars import TracedNumber
from emplace.tracing.scopes import OPTIMIZER, path_of
from emplace.tracing.slots import GroupSlot, StateSlot
from emplace.tracing.step import StepInput, StepOutput
from emplace.tracing.values import TensorInfo
from emplace.tracing.watcher import Watcher


class Update:
    """Takes the optimizer's step on fake parameters, with state and learning rates as arguments of the
    graph.
    """

    def __init__(
        self, arguments: Arguments, watcher: Watcher, optimizer: torch.optim.Optimizer, root: str
    ) -> None:
        self.arguments, self.watcher, self.optimizer = arguments, watcher, optimizer
        self.recorder = arguments.recorder
        #: The scope of the model itself.
        self.root = root
        self.states: list[tuple[str, dict[str, Any], str]] = []
        self.state: dict[torch.Tensor, dict[str, Any]] = {}
        self.groups: list[dict[str, Any]] = []
        self.whole: set[int] = set()
        self.numbers: dict[torch.Tensor, dict[str, StateKind]] = {}
        self.kinds: dict[Any, dict[str, StateKind]] = {}
        for i, group in enumerate(optimizer.param_groups):
            for parameter in group["params"]:
                if id(parameter) not in arguments.fakes:
                    raise EmplaceError(
                        f"optimizer group.{i}",
                        f"has a parameter {tuple(parameter.shape)} that is not the model's",
                        "give the optimizer parameters of the model that is traced",
                    )

    def prepare(self) -> None:
        """Arguments for state and learning rates; outside of the tracer's modes, when the gradients are
        there.
        """
        self.groups = [self._group(i, group) for i, group in enumerate(self.optimizer.param_groups)]

    def run(self) -> None:
        """The step."""
        groups = [
            {**group, "params": [p for p in group["params"] if not self._is_whole(i, p)]}
            for i, group in enumerate(self.groups)
        ]
        clone = copy_of(self.optimizer, [group for group in groups if group["params"]], self.state)
        self.state = clone.state
        if clone.param_groups:
            step_of(clone)
        for i, group in enumerate(self.groups):
            for parameter in group["params"]:
                if parameter.grad is not None and self._is_whole(i, parameter):
                    self._whole_step(i, parameter)
        for group in self.groups:
            for parameter in group["params"]:
                self._check_new(parameter)

    def _is_whole(self, i: int, parameter: torch.Tensor) -> bool:
        """Whether the step of a parameter of group i is one op."""
        return i in self.whole or (parameter.grad is not None and parameter.grad.layout != torch.strided)

    def _whole_step(self, i: int, parameter: torch.Tensor) -> None:
        """The step of a parameter as one op."""
        recorder, entries = self.recorder, self.state[parameter]
        keys = [key for key, value in entries.items() if isinstance(value, torch.Tensor)]
        numbers = {
            key: kind.number
            for key, kind in self.numbers.get(parameter, {}).items()
            if kind.number is not None
        }
        lr = self.groups[i]["lr"]
        whole = WholeStep(self.optimizer, self.optimizer.param_groups[i], keys, numbers)
        written = [parameter, *(entries[key] for key in keys)]
        assert parameter.grad is not None
        nodes = [recorder.node_of(t) for t in written]
        arguments = (
            nodes[0],
            recorder.node_of(parameter.grad),
            lr.node if isinstance(lr, TracedNumber) else lr,
            *nodes[1:],
        )
        infos = tuple(TensorInfo.of(t) for t in written)
        node = recorder.emit(whole, arguments, {}, infos)
        for k, (tensor, info) in enumerate(zip(written, infos)):
            value_of(tensor).write(recorder.emit, recorder.emit(getitem, (node, k), {}, (info,)))

    def _group(self, i: int, group: dict[str, Any]) -> dict[str, Any]:
        """A group with fake parameters, and with its learning rate as a traced number."""
        fakes = [self.arguments.fakes[id(p)] for p in group["params"]]
        made = {**group, "params": fakes}
        missing = []
        for parameter, fake in zip(group["params"], fakes):
            if fake.grad is not None and self._state(i, group, parameter, fake):
                missing.append(parameter)
        if isinstance(group.get("lr"), float):
            made["lr"] = self._number(i, "lr", None)
        if missing and group.get("dampening", 0) != 0:
            having = [f for f in fakes if f.grad is not None and not self._is_whole(i, f)]
            if len(missing) != len(having):
                raise EmplaceError(
                    f"optimizer group.{i}",
                    "has momentum for some of its parameters only",
                    "run one plain step so that every parameter has it",
                )
            first, state = missing[0], self.optimizer.state
            made["dampening"] = self._number(
                i, "dampening", lambda: "momentum_buffer" not in state.get(first, {})
            )
        return made

    def _number(self, i: int, key: str, first: Any) -> Any:
        name = f"group.{i}/{key}"
        value = float(self.optimizer.param_groups[i][key])
        slot = GroupSlot(name, self.optimizer, i, key, first)
        with self.recorder.mode, torch.no_grad():
            fake = torch.empty((), dtype=torch.float64)
        self.arguments.add(StepInput("optimizer", name, None, name), fake, OPTIMIZER, slot)
        return self.recorder.item(fake, value)

    def _state(self, i: int, group: dict[str, Any], parameter: torch.Tensor, fake: torch.Tensor) -> bool:
        """Arguments for the state of a parameter; True if its first value cannot be made before the first
        gradient.
        """
        name, special = self.arguments.names[id(parameter)], False
        kinds = self._kinds(i, group, parameter)
        now = self.optimizer.state.get(parameter, {})
        entries: dict[str, Any] = {}
        self.state[fake] = entries
        for key in [*kinds, *(k for k in now if k not in kinds)]:
            kind, value = kinds.get(key), now.get(key)
            if value is None and kind is None:
                entries[key] = None
                continue
            initial = kind.initial if kind is not None else None
            if kind is not None and kind.needs_gradient:
                if isinstance(self.optimizer, torch.optim.SGD) and key == "momentum_buffer":
                    dense = kind.initial is not no_elements
                    initial, special = (negative_zero, value is None) if dense else (no_elements, False)
                elif value is None:
                    raise EmplaceError(
                        f"optimizer state {key}",
                        "starts with the first gradient",
                        "run one plain step before tracing, so that the state is there",
                    )
            number = (
                type(value)
                if isinstance(value, (int, float))
                else kind.number
                if value is None and kind
                else None
            )
            entries[key] = self._argument(i, name, key, parameter, value, kind, number, initial)
        return special

    def _argument(
        self,
        i: int,
        name: str,
        key: str,
        parameter: torch.Tensor,
        value: Any,
        kind: StateKind | None,
        number: type | None,
        initial: Any,
    ) -> Any:
        if number is None and isinstance(value, torch.Tensor):
            made = compat.fake_like(self.recorder.mode, value)
        else:
            with self.recorder.mode, torch.no_grad():
                if number is not None:
                    made = torch.empty((), dtype=torch.int64 if number is int else torch.float64)
                else:
                    assert kind is not None and kind.fake is not None
                    made = kind.fake()
        label = f"{name}/{key}"
        slot = StateSlot(label, self.optimizer, parameter, key, number, initial)
        scope = path_of(name.rpartition(".")[0], self.root)
        self.arguments.add(StepInput("optimizer", label, name, label), made, scope, slot)
        fake = self.arguments.fakes[id(parameter)]
        self.states.append((label, self.state[fake], key))
        if number is not None and self._is_whole(i, fake):
            self.numbers.setdefault(fake, {})[key] = StateKind(None, number, None, False)
        elif number is not None:
            return self.recorder.item(made, value if value is not None else number(3))
        return made

    def _kinds(self, i: int, group: dict[str, Any], parameter: torch.Tensor) -> dict[str, StateKind]:
        """What state there is for a parameter like this: found once for equal shapes of a group."""
        traced = self.arguments.fakes[id(parameter)].grad
        form = traced.layout if traced is not None else None
        key = (i, tuple(parameter.shape), tuple(parameter.stride()), parameter.dtype, form)
        if key not in self.kinds:
            try:
                self.kinds[key] = first_states(self.optimizer, group, parameter, traced)
            except Branches:
                self.whole.add(i)
                self.kinds[key] = first_states(self.optimizer, group, parameter, traced, plain_numbers=True)
        return self.kinds[key]

    def _check_new(self, parameter: torch.Tensor) -> None:
        """Refuses state that the step made and that was not there before."""
        known = self.state.get(parameter, {})
        names = {key for _, entries, key in self.states if entries is known}
        for key, value in known.items():
            if isinstance(value, torch.Tensor) and key not in names:
                raise later_state(key)

    def results(self) -> list[tuple[StepOutput, Node]]:
        """New values of the state."""
        found = []
        for label, entries, key in self.states:
            value = entries[key]
            if isinstance(value, TracedNumber):
                dtype = torch.int64 if isinstance(value, int) else torch.float64
                value = self.watcher.tensor_of(value, dtype)
            node = self.recorder.node_of(value)
            if node.op == "placeholder" and not value_of(value).cell.written:
                continue
            found.append((StepOutput("optimizer", label), node))
        return found

"""An optimizer's own ``step()``, run on fake parameters.

The optimizer is not changed: a copy of it, with fake parameters, gradients and state, takes the step. State
that the optimizer has not made yet is found by a first step of a second copy, apart from the graph: how
each state is initialised (a *recipe*, some ops on the parameter) is kept, and is run when the step is.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Node

from emplace.errors import EmplaceError
from emplace.tracing import compat, scalars
from emplace.tracing.functional import strided_copy
from emplace.tracing.recorder import Recorder, value_of
from emplace.tracing.scopes import Scopes
from emplace.tracing.values import Value
from emplace.tracing.watcher import Watcher

_METADATA_ONLY = {
    "zeros_like",
    "ones_like",
    "full_like",
    "empty_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty",
    "new_empty_strided",
}
_UNDEFINED = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}


def modules_of(optimizer: torch.optim.Optimizer) -> list[str]:
    """Python modules with the code of an optimizer (a class may name another, public, one)."""
    steps = [vars(kind)["step"] for kind in type(optimizer).__mro__ if "step" in vars(kind)]
    found = {str(inspect.unwrap(step).__globals__["__name__"]) for step in steps}
    return sorted(found | {kind.__module__ for kind in type(optimizer).__mro__ if kind is not object})


def copy_of(
    optimizer: torch.optim.Optimizer,
    groups: list[dict[str, Any]],
    state: Mapping[torch.Tensor, dict[str, Any]],
) -> torch.optim.Optimizer:
    """An optimizer of the same kind with other parameters and state."""
    clone: torch.optim.Optimizer = object.__new__(type(optimizer))
    clone.__dict__.update({key: value for key, value in vars(optimizer).items() if key != "step"})
    for group in groups:
        for key in ("foreach", "fused"):
            if key in group:
                group[key] = False
    clone.param_groups = groups
    clone.state = defaultdict(dict, state)
    return clone


def step_of(optimizer: torch.optim.Optimizer) -> None:
    """One step, by the optimizer's class (schedulers wrap ``step`` of the object to count its calls)."""
    with scalars.followed_functions(modules_of(optimizer)), compat.without_ranges():
        type(optimizer).step(optimizer)


def later_state(key: str) -> EmplaceError:
    """The exception for state that was not there when the step was traced."""
    return EmplaceError(
        f"optimizer state {key}",
        "is made by a later step than the first",
        "run a few plain steps before tracing, so that the state is there",
    )


def without_hooks(clone: torch.optim.Optimizer) -> None:
    """A copy that runs no hooks of the user's."""
    for hooks in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
        if hooks in vars(clone):
            vars(clone)[hooks] = {}


class WholeStep:
    """The step of one parameter as one op, for an optimizer that decides by numbers which ops to issue, and
    for a sparse gradient, whose number of rows is in no shape.

    ``whole(parameter, gradient, lr, *states)`` returns the new parameter and states; it works on copies.
    """

    op_type = "emplace::optimizer_step"

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        group: Mapping[str, Any],
        states: list[str],
        numbers: Mapping[str, type],
    ) -> None:
        self.optimizer, self.group, self.states, self.numbers = optimizer, dict(group), states, dict(numbers)
        self.group.pop("params")
        self.__name__ = self.__qualname__ = f"optimizer_step_{type(optimizer).__name__}"
        self.__module__ = __name__

    def __call__(
        self, parameter: torch.Tensor, gradient: torch.Tensor, lr: Any, *states: torch.Tensor
    ) -> Any:
        new = strided_copy(parameter).requires_grad_()
        new.grad = gradient
        entries: dict[str, Any] = {}
        for key, value in zip(self.states, states):
            if value.layout == torch.sparse_coo:
                entries[key] = value.clone() if value._nnz() else None
            else:
                entries[key] = self.numbers[key](value.item()) if key in self.numbers else strided_copy(value)
        clone = copy_of(self.optimizer, [{**self.group, "lr": lr, "params": [new]}], {new: entries})
        without_hooks(clone)
        type(clone).step(clone)
        after = clone.state[new]
        for key, value in after.items():
            if isinstance(value, torch.Tensor) and key not in self.states:
                raise later_state(key)
        return (
            new.detach(),
            *(
                torch.tensor(after[key], dtype=old.dtype) if key in self.numbers else after[key]
                for key, old in zip(self.states, states)
            ),
        )

    def __repr__(self) -> str:
        return self.__name__


@dataclass
class StateKind:
    """A state that an optimizer keeps for its parameters: its shape and its initial value."""

    fake: Callable[[], torch.Tensor] | None
    number: type | None
    initial: Callable[[torch.Tensor], torch.Tensor] | None
    needs_gradient: bool


class Recipe:
    """The ops that make the first value of a state from a parameter."""

    def __init__(self, node: Node, stand_ins: set[Node], constants: Mapping[str, torch.Tensor]) -> None:
        self.graph, self.node = node.graph, node
        self.stand_ins, self.constants = stand_ins, dict(constants)
        self.needs_gradient = False
        self._find(node, set())

    def _find(self, node: Node, seen: set[Node], metadata: bool = False) -> None:
        if node in self.stand_ins:
            self.needs_gradient |= not metadata
        elif node not in seen:
            seen.add(node)
            schema = getattr(node.target, "_schema", None)
            only = schema is not None and schema.name.split("::")[1] in _METADATA_ONLY
            for source in node.all_input_nodes:
                self._find(source, seen, only)

    def __call__(self, parameter: torch.Tensor) -> torch.Tensor:
        values: dict[Node, Any] = {}

        def value(node: Node) -> Any:
            if node not in values:
                if node.op == "placeholder":
                    values[node] = parameter
                elif node.op == "get_attr":
                    values[node] = self.constants[str(node.target)].clone()
                else:
                    args = torch.fx.node.map_arg(node.args, value)
                    kwargs = torch.fx.node.map_arg(node.kwargs, value)
                    assert callable(node.target)
                    values[node] = node.target(*args, **kwargs)
            return values[node]

        with torch.no_grad():
            made: torch.Tensor = value(self.node)
        return made.clone() if made is parameter else made


def negative_zero(parameter: torch.Tensor) -> torch.Tensor:
    """The first momentum of SGD: -0.0, since ``-0.0 + g`` is ``g`` to the bit and 0.0 turns -0.0 into 0.0."""
    return torch.full_like(parameter, -0.0)


def no_elements(parameter: torch.Tensor) -> torch.Tensor:
    """The first momentum of SGD for sparse gradients: a sparse tensor that stores nothing stands for none."""
    return torch.zeros_like(parameter, layout=torch.sparse_coo)


def first_states(
    optimizer: torch.optim.Optimizer,
    group: Mapping[str, Any],
    like: torch.Tensor,
    traced: torch.Tensor | None,
    plain_numbers: bool = False,
) -> dict[str, StateKind]:
    """The states that an optimizer makes in its first step for a parameter like this one, whose gradient has
    the form of the ``traced`` one.

    ``plain_numbers``: numbers that it reads from tensors are 1, so that it may decide by them.
    """
    mode = FakeTensorMode()

    def sparse() -> torch.Tensor:
        assert traced is not None
        with mode:
            return compat.fake_sparse(tuple(like.shape), traced.sparse_dim(), like.dtype, like.device)

    if traced is not None and traced.layout == torch.sparse_coo and isinstance(optimizer, torch.optim.SGD):
        return {"momentum_buffer": StateKind(sparse, None, no_elements, True)} if group["momentum"] else {}
    scopes = Scopes()
    scopes.phase = "update"
    recorder = Recorder(mode, scopes)
    recorder.plain_numbers = plain_numbers
    fake = compat.fake_like(mode, like)
    with mode:
        fake = torch.nn.Parameter(fake, requires_grad=True)
    recorder.placeholder("parameter", fake)
    gradient = compat.fake_like(mode, like)
    if traced is not None and traced.layout == torch.sparse_coo:
        gradient = sparse()
    stand_in = recorder.placeholder("gradient", gradient)
    fake.grad = gradient
    clone = copy_of(optimizer, [{**group, "params": [fake]}], {})
    without_hooks(clone)
    with mode, recorder, Watcher(recorder):
        try:
            step_of(clone)
        except KeyError:  # The constructor of such an optimizer makes all state.
            return {}
        except Exception:  # An optimizer makes state first; the rows of a gradient are in no shape.
            if gradient.layout == torch.strided:
                raise
    found: dict[str, StateKind] = {}
    for key, value in clone.state.get(fake, {}).items():
        if isinstance(value, torch.Tensor):
            first = _birth(value_of(value))
            recipe = Recipe(first, {stand_in}, recorder.constants)
            make = _maker(value)
            found[key] = StateKind(make, None, recipe, recipe.needs_gradient)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            kind = int if isinstance(value, int) else float
            # 0, what optimizers of torch count from.
            zero = torch.zeros((), dtype=torch.int64 if kind is int else torch.float64)
            found[key] = StateKind(None, kind, lambda _, zero=zero: zero.clone(), False)  # type: ignore[misc]
    return found


def _maker(like: torch.Tensor) -> Callable[[], torch.Tensor]:
    size, stride, dtype, device = tuple(like.size()), tuple(like.stride()), like.dtype, like.device
    return lambda: torch.empty_strided(size, stride, dtype=dtype, device=device)


def _birth(value: Value) -> Node:
    """The node with a tensor's first defined value, before the step wrote to it."""
    for node in value.cell.history:
        schema = getattr(node.target, "_schema", None)
        if schema is None or schema.name.split("::")[1] not in _UNDEFINED:
            return node
    return value.cell.node

"""Restores the user's model and optimizer after a trace, also after one that failed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

_CONTAINERS = (dict, list, set)


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, _CONTAINERS) else None


def _put_back(current: Any, contents: Any) -> None:
    """Gives a container its old contents; the container itself stays the same object."""
    if isinstance(current, list):
        current[:] = contents
    else:
        current.clear()
        current.update(contents)


class _Snapshot:
    """Attributes of an object, one level into its dicts, lists and sets."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self.attributes = dict(vars(thing))
        self.contents = [
            (value, _copied(value)) for value in self.attributes.values() if isinstance(value, _CONTAINERS)
        ]

    def restore(self) -> None:
        space = vars(self.thing)
        for name in [name for name in space if name not in self.attributes]:
            del space[name]
        space.update(self.attributes)
        for container, contents in self.contents:
            _put_back(container, contents)


@contextlib.contextmanager
def unchanged(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None) -> Iterator[None]:
    """Restores attributes, hooks, parameters, buffers, training flags and gradients of a model, and the
    generator.
    """
    things: list[Any] = list(model.modules())
    if optimizer is not None:
        things.append(optimizer)
    snapshots = [_Snapshot(thing) for thing in things]
    gradients = [(p, p.grad) for p in model.parameters()]
    generator = torch.default_generator.get_state()
    grad_mode = torch.is_grad_enabled()
    try:
        yield
    finally:
        for snapshot in snapshots:
            snapshot.restore()
        for parameter, gradient in gradients:
            if parameter.grad is not gradient:
                parameter.grad = gradient
        torch.default_generator.set_state(generator)
        torch.set_grad_enabled(grad_mode)


def swap(model: torch.nn.Module, fakes: Mapping[int, torch.Tensor]) -> None:
    """Puts fake tensors in the place of parameters and buffers (by ``id``), also in lists such as an
    LSTM's.
    """
    for module in model.modules():
        for value in list(vars(module).values()):
            if isinstance(value, dict):
                for key, entry in value.items():
                    if isinstance(entry, torch.Tensor) and id(entry) in fakes:
                        value[key] = fakes[id(entry)]
            elif isinstance(value, list):
                value[:] = [fakes.get(id(e), e) if isinstance(e, torch.Tensor) else e for e in value]
        for name, entry in list(vars(module).items()):
            if isinstance(entry, torch.Tensor) and id(entry) in fakes:
                vars(module)[name] = fakes[id(entry)]
            elif name == "_flat_weight_refs":
                import weakref

                flat = vars(module).get("_flat_weights", [])
                vars(module)[name] = [weakref.ref(w) if w is not None else None for w in flat]

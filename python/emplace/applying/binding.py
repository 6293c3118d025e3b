"""Calls on tensors for the tasks of a plan: an op with its arguments and its device as one function."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node

#: The tensors of a running step, by slot.
Values = list[Any]
Call = Callable[[Values], Any]


class _Slot:
    """Stands in an argument for the tensor of a slot."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot


def _prepared(
    argument: Any, slots: Mapping[Node, int], constants: Callable[[Node], Any], device: torch.device
) -> Any:
    """The argument with nodes as slots or constants, and devices as the op's own."""
    if isinstance(argument, Node):
        return _Slot(slots[argument]) if argument in slots else constants(argument)
    if isinstance(argument, torch.device):
        return device
    if isinstance(argument, (list, tuple)):
        return [_prepared(element, slots, constants, device) for element in argument]
    if isinstance(argument, dict):
        return {key: _prepared(element, slots, constants, device) for key, element in argument.items()}
    return argument


def _filled(argument: Any, values: Values) -> Any:
    if isinstance(argument, _Slot):
        return values[argument.slot]
    if isinstance(argument, list):
        return [_filled(element, values) for element in argument]
    if isinstance(argument, dict):
        return {key: _filled(element, values) for key, element in argument.items()}
    return argument


def _has_slot(argument: Any) -> bool:
    if isinstance(argument, (list, dict)):
        return any(
            _has_slot(element) for element in (argument.values() if isinstance(argument, dict) else argument)
        )
    return isinstance(argument, _Slot)


def bound_call(
    node: Node,
    slots: Mapping[Node, int],
    constants: Callable[[Node], Any],
    device: torch.device,
    operator_: Any = None,
) -> Call:
    """The node's operator, or another in its place, as a function of the table of values."""
    target: Any = operator_ or node.target
    function = target if target is operator.getitem else getattr(target, "_op", target)
    arguments = [_prepared(a, slots, constants, device) for a in node.args]
    keywords = {key: _prepared(a, slots, constants, device) for key, a in node.kwargs.items()}
    schema = getattr(target, "_schema", None)
    if (
        schema is not None
        and "device" not in keywords
        and not slots
        and any(a.name == "device" for a in schema.arguments[len(arguments) :])
    ):
        keywords["device"] = device  # An op without tensors would run on the default device.
    nested = any(_has_slot(a) and not isinstance(a, _Slot) for a in arguments) or _has_slot(keywords)
    if nested:

        def call_nested(values: Values) -> Any:
            return function(*_filled(arguments, values), **_filled(keywords, values))

        return call_nested
    fills = [(at, a.slot) for at, a in enumerate(arguments) if isinstance(a, _Slot)]
    if all(at == place for place, (at, _) in enumerate(fills)):
        # The tensors come first, as in almost every operator.
        rest = tuple(arguments[len(fills) :])
        if len(fills) == 1:
            first = fills[0][1]
            return lambda values: function(values[first], *rest, **keywords)
        if len(fills) == 2:
            first, second = fills[0][1], fills[1][1]
            return lambda values: function(values[first], values[second], *rest, **keywords)

    def call(values: Values) -> Any:
        filled = arguments.copy()
        for at, slot in fills:
            filled[at] = values[slot]
        return function(*filled, **keywords)

    return call

"""Python numbers that change from step to step, traced through Python's own arithmetic.

An optimizer computes with numbers that it reads from tensors (``step.item()``) or from its groups (``lr``).
A :class:`TracedFloat` is such a number: a float with a value to compute with while tracing, and the node
that has the number when the step runs. Arithmetic makes nodes with Python's own operators, so a replay
gives the same bits. What cannot be followed (a comparison, a conversion) is refused.
"""

from __future__ import annotations

import builtins
import contextlib
import math
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

from torch.fx import Node

from emplace.tracing.refusal import branches

Make = Callable[[Any, tuple[Any, ...]], Node]

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_UNARY = ("neg", "pos", "abs")
_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
_MATH = (
    "sqrt",
    "exp",
    "log",
    "log2",
    "log10",
    "pow",
    "sin",
    "cos",
    "tanh",
    "floor",
    "ceil",
    "expm1",
    "log1p",
)


class TracedNumber:
    """What TracedFloat and TracedInt share."""

    node: Node
    make: Make


class TracedFloat(float, TracedNumber):
    """A float that knows its node."""

    def __new__(cls, value: float, node: Node, make: Make) -> TracedFloat:
        self = super().__new__(cls, value)
        self.node, self.make = node, make
        return self

    def __reduce__(self) -> Any:
        return float, (repr(float.__repr__(self)),)


class TracedInt(int, TracedNumber):
    """An int that knows its node."""

    def __new__(cls, value: int, node: Node, make: Make) -> TracedInt:
        self = super().__new__(cls, value)
        self.node, self.make = node, make
        return self


def traced(value: float | int, node: Node, make: Make) -> Any:
    """A traced number with a value to compute with."""
    return TracedInt(value, node, make) if isinstance(value, int) else TracedFloat(value, node, make)


def plain(value: Any) -> Any:
    """The value without its node."""
    if isinstance(value, TracedFloat):
        return float.__add__(value, 0.0)
    if isinstance(value, TracedInt):
        return int.__add__(value, 0)
    return value


def call(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)`` as a traced number; its node calls the function again."""
    first = next(a for a in args if isinstance(a, TracedNumber))
    value = function(*(plain(a) for a in args))
    node = first.make(function, tuple(a.node if isinstance(a, TracedNumber) else a for a in args))
    return traced(value, node, first.make)


def _install() -> None:
    def binary(function: Callable[..., Any], base: type) -> tuple[Callable[..., Any], Callable[..., Any]]:
        def forward(self: Any, other: Any) -> Any:
            return call(function, self, other) if isinstance(other, (int, float)) else NotImplemented

        def backward(self: Any, other: Any) -> Any:
            return call(function, other, self) if isinstance(other, (int, float)) else NotImplemented

        return forward, backward

    def unary(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self: call(function, self)

    def refused(what: str) -> Callable[..., Any]:
        def method(self: Any, *args: Any) -> Any:
            raise branches(what)

        return method

    for kind in (TracedFloat, TracedInt):
        for name in _BINARY:
            forward, backward = binary(getattr(operator, name), kind)
            setattr(kind, f"__{name}__", forward)
            setattr(kind, f"__r{name}__", backward)
        for name in _UNARY:
            setattr(kind, f"__{name}__", unary(getattr(operator, name)))
        for name in _COMPARE:
            setattr(kind, f"__{name}__", refused("compares"))
        for name in ("float", "int", "trunc", "round", "index"):
            if hasattr(kind, f"__{name}__"):
                setattr(kind, f"__{name}__", refused("converts"))
        setattr(kind, "__bool__", refused("branches on"))
        setattr(kind, "__hash__", lambda self: id(self))


_install()


def _following(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) > 0 and any(isinstance(a, TracedNumber) for a in args):
            return call(function, *args)
        return function(*args, **kwargs)

    return wrapper


@contextlib.contextmanager
def followed_functions(modules: list[str]) -> Iterator[None]:
    """While open, functions of ``math`` (and ``min``, ``max`` as these modules see them) follow traced
    numbers.
    """
    saved = {name: getattr(math, name) for name in _MATH}
    spaces = [vars(sys.modules[name]) for name in modules if name in sys.modules]
    added = [(space, name) for space in spaces for name in ("min", "max") if name not in space]
    try:
        for name, function in saved.items():
            setattr(math, name, _following(function))
        for space, name in added:
            space[name] = _following(getattr(builtins, name))
        yield
    finally:
        for name, function in saved.items():
            setattr(math, name, function)
        for space, name in added:
            space.pop(name, None)

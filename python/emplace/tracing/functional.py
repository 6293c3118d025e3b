"""The functional form of ops that write to their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload

# Ops that write to arguments although their schema does not show it: positions of these arguments.
_UNSAID = {
    "aten::native_batch_norm": ("running_mean", "running_var"),
    "aten::cudnn_batch_norm": ("running_mean", "running_var"),
    "aten::miopen_batch_norm": ("running_mean", "running_var"),
}
#: Ops that return views although their schema does not show it, by name without namespace and overload.
SILENT_VIEWS = frozenset(
    {"_reshape_alias", "_unsafe_view", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"}
)
_SUMMED = frozenset(
    {
        "aten::mse_loss",
        "aten::smooth_l1_loss",
        "aten::binary_cross_entropy",
        "aten::soft_margin_loss",
    }
)
_RENAMED = {"bernoulli_.float": "bernoulli.p", "transpose_.default": "transpose.int"}


class FunctionalOp:
    """An op that writes to arguments, made functional: it works on copies of them.

    Returns the new values of the written arguments in order, then the op's own results that are not such
    arguments; a single one is returned bare.
    """

    def __init__(self, func: OpOverload, written: tuple[str, ...]) -> None:
        self.func = func
        self.written = written
        self.positions = {argument.name: i for i, argument in enumerate(func._schema.arguments)}
        self._schema = func._schema
        name = str(func).replace(".", "_")
        self.__name__ = f"functional_{name}"
        self.__qualname__ = self.__name__
        self.__module__ = __name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arguments, named = list(args), dict(kwargs)
        new: list[Any] = []
        for name in self.written:
            position = self.positions[name]
            old = arguments[position] if position < len(arguments) else named.get(name)
            copy = self._clone(old)
            if position < len(arguments):
                arguments[position] = copy
            elif old is not None:
                named[name] = copy
            new.extend(copy if isinstance(copy, list) else [copy])
        result = self.func(*arguments, **named)
        new.extend(own_results(self.func, result))
        return new[0] if len(new) == 1 else tuple(new)

    def _clone(self, value: Any) -> Any:
        return _clone(value, strided_copy)

    def __repr__(self) -> str:
        return self.__name__


class DenseOp(FunctionalOp):
    """The same on copies without gaps. Kernels may round otherwise then."""

    def __init__(self, op: FunctionalOp) -> None:
        super().__init__(op.func, op.written)

    def _clone(self, value: Any) -> Any:
        return _clone(value, torch.clone)


class SavingOp(FunctionalOp):
    """An op that saves what its backward needs only where gradients are enabled, as when it was traced."""

    def __init__(self, func: OpOverload) -> None:
        super().__init__(func, ())
        self.__name__ = self.__qualname__ = f"saving_{str(func).replace('.', '_')}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with torch.enable_grad():
            return self.func(*args, **kwargs)


def strided_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, also with gaps: kernels compute other bits for other strides."""
    with torch.no_grad():
        copy = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        return copy.copy_(tensor)


def _clone(value: Any, copy: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return copy(value)
    if isinstance(value, (list, tuple)):
        return [_clone(each, copy) for each in value]
    return value


def own_results(func: OpOverload, result: Any) -> list[Any]:
    """Results of an op other than the arguments that it wrote to."""
    returns = func._schema.returns
    results = [result] if len(returns) == 1 else list(result) if returns else []
    return [
        value
        for value, entry in zip(results, returns)
        if not (entry.alias_info is not None and entry.alias_info.is_write)
    ]


def summed(node: Any) -> list[Any]:
    """What a node makes of a tensor's size although its result is one number: PyTorch allocates the result of
    some losses for all terms of its sum. In the graph this is an output that nothing reads.
    """
    schema = getattr(node.target, "_schema", None)
    if schema is None or str(schema.name) not in _SUMMED or node.meta["tensors"][0].shape:
        return []
    return list(node.args[0].meta["tensors"])


@cache
def in_place_on_copies(func: OpOverload, written: tuple[str, ...]) -> FunctionalOp:
    """An op that works on copies of the arguments that it writes to."""
    return FunctionalOp(func, written)


@cache
def saving(func: OpOverload) -> OpOverload | SavingOp:
    """The op as a step with gradients runs it: an LSTM's layer on a CPU asks whether they are enabled."""
    return SavingOp(func) if func._schema.name == "aten::mkldnn_rnn_layer" else func


@dataclass(frozen=True)
class OpKind:
    """What the tracer must know of an op, from its schema."""

    name: str
    """The name without namespace, overload and the ``_`` of in-place ops."""
    view: bool
    random: bool
    written: tuple[str, ...]
    """Names of the arguments that it writes to."""
    functional: OpOverload | FunctionalOp
    """The op that is recorded: itself if it writes to nothing."""
    inplace_view: bool


@cache
def kind_of(func: OpOverload) -> OpKind:
    """What an op does to its arguments.

    >>> kind = kind_of(torch.ops.aten.add_.Tensor)
    >>> kind.written, kind.functional
    (('self',), <OpOverload(op='aten.add', overload='Tensor')>)
    >>> kind_of(torch.ops.aten.t.default).view
    True
    """
    schema = func._schema
    full = str(schema.name)
    base = full.split("::")[1]
    written = tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    written = written or _UNSAID.get(full, ())
    view = not written and any(r.alias_info is not None for r in schema.returns)
    name = base[:-1] if base.endswith("_") and not base.endswith("__") else base
    functional: OpOverload | FunctionalOp = func
    if written:
        functional = _functional_variant(func, base, name) or in_place_on_copies(func, written)
    random = torch.Tag.nondeterministic_seeded in func.tags
    return OpKind(name, view, random, written, functional, torch.Tag.inplace_view in func.tags)


def _functional_variant(func: OpOverload, base: str, name: str) -> OpOverload | None:
    """The op that returns what an in-place op writes, with the same arguments."""
    if name == base or not str(func).startswith("aten."):
        return None
    which = str(func._overloadname)
    packet, _, overload = _RENAMED.get(f"{base}.{which}", f"{name}.{which}").partition(".")
    found = getattr(getattr(torch.ops.aten, packet, None), overload, None)
    if found is None:
        return None
    ours = [(a.name, str(a.type)) for a in func._schema.arguments]
    theirs = [(a.name, str(a.type)) for a in found._schema.arguments]
    returns = found._schema.returns
    view = torch.Tag.inplace_view in func.tags
    if ours != theirs or len(returns) != 1 or str(returns[0].type) != "Tensor":
        return None
    return found if view or returns[0].alias_info is None else None


def with_defaults(func: OpOverload, functional: OpOverload, args: list[Any]) -> list[Any]:
    """Positional arguments for the functional form, which may have no default where the in-place op has
    one.
    """
    full = list(args)
    for ours, theirs in zip(func._schema.arguments[len(full) :], functional._schema.arguments[len(full) :]):
        if theirs.kwarg_only or theirs.has_default_value() or not ours.has_default_value():
            break
        full.append(ours.default_value)
    return full

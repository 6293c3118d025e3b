"""Updates that can write over the state that they update, as an optimizer does."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.fx import Node

from emplace.applying.lowering import Kernel, LoweredStep, target_name

#: Elementwise operators whose result replaces their first argument when an optimizer uses them.
_ACCUMULATES = frozenset({"add", "sub", "mul", "div", "addcmul", "addcdiv", "lerp"})


def in_place_form(node: Node) -> Any:
    """The operator that writes the node's result over its first argument; None if there is none."""
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload) or target_name(node) not in _ACCUMULATES:
        return None
    packet = getattr(torch.ops.aten, target_name(node) + "_", None)
    overload = target._schema.overload_name or "default"
    return getattr(packet, overload, None) if packet is not None and overload in packet.overloads() else None


class InPlace:
    """What a lowered step may compute in place, whatever the placement. Found when first asked for."""

    def __init__(self, lowered: LoweredStep) -> None:
        self._lowered = lowered

    @functools.cached_property
    def chains(self) -> dict[int, list[int]]:
        """Input of the step -> kernels that may compute its new value in its memory."""
        return in_place_chains(self._lowered)

    @functools.cached_property
    def accumulations(self) -> set[Node]:
        """Kernels that may add to their first argument."""
        return accumulations(self._lowered)


def in_place_chains(lowered: LoweredStep) -> dict[int, list[int]]:
    """Input of the step -> kernels that compute its new value, each over the result of the one before.

    The first writes over the old value. Whatever else reads an overwritten value comes earlier in the trace.
    """
    by_name: dict[tuple[str, str], int] = {(i.kind, i.name): n for n, i in enumerate(lowered.step.inputs)}
    readers: dict[int, list[int]] = {}
    for number, kernel in enumerate(lowered.kernels):
        for value in kernel.reads:
            readers.setdefault(value, []).append(number)
    kept = {value for value in lowered.results if value is not None}
    found: dict[int, list[int]] = {}
    for output, result in zip(lowered.step.outputs, lowered.results):
        target = by_name.get((output.kind, output.name))
        if target is None or result is None:
            continue
        chain = _chain(lowered, result, lowered.placeholders[target], readers, kept)
        if chain:
            found[target] = chain
    return found


def _chain(
    lowered: LoweredStep, value: int, state: int, readers: dict[int, list[int]], kept: set[int]
) -> list[int]:
    """The kernels from the state to its new value; empty if one of them cannot write in place."""
    chain: list[int] = []
    while value != state:
        node = lowered.values[value].node
        number = lowered.kernel_of.get(node)
        if number is None or not lowered.kernels[number].update or in_place_form(node) is None:
            return []
        first = node.args[0] if node.args else None
        before = lowered.value_of.get(first) if isinstance(first, Node) else None
        if (
            before is None
            or lowered.values[before].base is not None
            or _layout(lowered, before) != _layout(lowered, value)
        ):
            return []
        if before in kept and before != state:
            return []
        others = [r for v in lowered.sharing(before) for r in readers.get(v, ()) if r != number]
        if any(r > number for r in others) or any(v in kept for v in lowered.sharing(before) if v != before):
            return []
        chain.append(number)
        value = before
    return chain[::-1]


#: Operators of gradients whose results have their own memory.
_OWN_MEMORY = frozenset(
    {
        "mm",
        "addmm",
        "bmm",
        "baddbmm",
        "add",
        "mul",
        "sum",
        "cat",
        "convolution_backward",
        "embedding_dense_backward",
        "native_layer_norm_backward",
        "native_batch_norm_backward",
        "slice_backward",
        "select_backward",
    }
)


#: The same of updates, whose results become part of a new value.
_UPDATES = _ACCUMULATES | {"sqrt", "rsqrt", "neg", "abs", "pow", "maximum", "reciprocal"}


def accumulations(lowered: LoweredStep) -> set[Node]:
    """Kernels whose result may replace their first argument, which nothing else reads: sums of gradients, as
    autograd makes them, and what an optimizer computes on the way to a new value.
    """
    readers: dict[int, int] = {}
    for kernel in lowered.kernels:
        for value in kernel.reads:
            readers[value] = readers.get(value, 0) + 1
    kept = set(lowered.results)
    found = set()
    for kernel in lowered.kernels:
        node = kernel.node
        sums = node.meta.get("phase") == "backward" and target_name(node) == "add"
        if not (sums or kernel.update) or in_place_form(node) is None:
            continue
        first = node.args[0]
        term = lowered.value_of.get(first) if isinstance(first, Node) else None
        if term is None or readers[term] != 1 or term in kept or len(lowered.sharing(term)) > 1:
            continue
        entry = lowered.values[term]
        maker = lowered.kernel_of.get(lowered.buffers[entry.buffer].owner)
        if (
            entry.base is None
            and maker is not None
            and _has_own_memory(lowered.kernels[maker])
            and _layout(lowered, term) == _layout(lowered, lowered.value_of[node])
        ):
            found.add(node)
    return found


def _has_own_memory(kernel: Kernel) -> bool:
    name = target_name(kernel.node)
    return name in _OWN_MEMORY or kernel.update and name in _UPDATES


def _layout(lowered: LoweredStep, value: int) -> Any:
    """What must be equal for a value to take another's memory; never equal if the trace lacks it."""
    (info, *_) = lowered.values[value].node.meta["tensors"] or (None,)
    return value if info is None else (info.shape, info.stride, info.dtype)

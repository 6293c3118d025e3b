"""Which node holds the value of a tensor, when tensors are written to in place and are views of each other.

Each storage has a *cell*: the node with the value of the whole (its base tensor) and a version. A tensor is
a path of views from its cell's base. A write to a tensor makes a new value of the base; readers of other
views of it take their view of the new value. So a program with in-place writes becomes one without.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from operator import getitem
from typing import Any

import torch
from torch.fx import Node

from emplace.tracing.refusal import refuse

Emit = Any  # Recorder.emit: (target, args, kwargs, tensors) -> Node


@dataclass(frozen=True)
class TensorInfo:
    """What a tensor is, without the tensor. ``stride`` is in elements."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @staticmethod
    def of(tensor: torch.Tensor) -> TensorInfo:
        """The facts of a fake or real tensor."""
        return TensorInfo(tuple(tensor.size()), tuple(tensor.stride()), tensor.dtype, tensor.device)

    @property
    def numel(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements (a broadcast view counts as if it were dense)."""
        size = torch._utils._element_size(self.dtype)  # type: ignore[no-untyped-call,unused-ignore]
        return self.numel * int(size)


@dataclass(frozen=True)
class ViewStep:
    """One view: ``func(base, *args, **kwargs)``, of whose results the ``index``-th if it makes several."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    index: int | None
    before: TensorInfo
    after: TensorInfo


class Cell:
    """The storage that several tensors may share."""

    __slots__ = ("node", "history", "version", "info", "written", "constant")

    def __init__(self, node: Node, info: TensorInfo, constant: bool = False) -> None:
        self.node = node
        self.history = [node]
        self.version = 0
        self.info = info
        self.written = False
        self.constant = constant


class Value:
    """What a tensor object stands for: a view of a cell, and the node that has it (as of ``version``)."""

    __slots__ = ("cell", "path", "node", "version")

    def __init__(self, cell: Cell, path: tuple[ViewStep, ...], node: Node) -> None:
        self.cell = cell
        self.path = path
        self.node = node
        self.version = cell.version

    def read(self, emit: Emit) -> Node:
        """The node with the tensor's value now."""
        if self.version != self.cell.version:
            node = self.cell.node
            for step in self.path:
                node = apply_view(emit, node, step)
            self.node, self.version = node, self.cell.version
        return self.node

    def write(self, emit: Emit, node: Node) -> None:
        """Makes ``node`` the tensor's value, for this tensor and all that share its storage."""
        values = [self.cell.node]
        for step in self.path[:-1]:
            values.append(apply_view(emit, values[-1], step))
        new = node
        for step, parent in zip(reversed(self.path), reversed(values)):
            new = scatter(emit, parent, new, step)
        self.cell.node = new
        self.cell.history.append(new)
        self.cell.version += 1
        self.cell.written = True
        self.node, self.version = node, self.cell.version


def apply_view(emit: Emit, base: Node, step: ViewStep) -> Node:
    """The view of a base."""
    if step.index is None:
        node: Node = emit(step.func, (base, *step.args), step.kwargs, (step.after,))
        return node
    several = emit(step.func, (base, *step.args), step.kwargs, ())
    several.meta["tensors"] = tuple(step.after if i == step.index else None for i in range(step.index + 1))
    node = emit(getitem, (several, step.index), {}, (step.after,))
    return node


def scatter(emit: Emit, base: Node, new: Node, step: ViewStep) -> Node:
    """``base`` with the elements that the view ``step`` shows exchanged for ``new``."""
    name = step.func._schema.name.removeprefix("aten::")
    aten, args, before = torch.ops.aten, step.args, step.before
    out = (before,)

    def argument(position: int, key: str, default: Any) -> Any:
        return args[position] if len(args) > position else step.kwargs.get(key, default)

    def call(func: Any, *arguments: Any) -> Node:
        node: Node = emit(func, arguments, {}, out)
        return node

    if name in ("detach", "alias", "lift_fresh") or before == step.after:
        return new
    if (
        name in ("view", "_unsafe_view", "_reshape_alias", "reshape", "squeeze", "unsqueeze")
        and before.numel == step.after.numel
        and before.dtype == step.after.dtype
    ):
        return call(aten.reshape.default, new, list(before.shape))
    if name == "t":
        return call(aten.t.default, new)
    if name == "transpose":
        return call(aten.transpose.int, new, args[0], args[1])
    if name == "permute":
        rank = len(before.shape)
        order = [dim % rank for dim in args[0]]
        return call(aten.permute.default, new, [order.index(dim) for dim in range(rank)])
    if name == "select":
        return call(aten.select_scatter.default, base, new, args[0], args[1])
    if name == "slice":
        dim, start, end = argument(0, "dim", 0), argument(1, "start", None), argument(2, "end", None)
        return call(aten.slice_scatter.default, base, new, dim, start, end, argument(3, "step", 1))
    if name == "unbind":
        return call(aten.select_scatter.default, base, new, argument(0, "dim", 0), step.index)
    if name in ("split", "split_with_sizes") and step.index is not None:
        dim = argument(1, "dim", 0)
        sizes = args[0] if name == "split_with_sizes" else [args[0]] * (step.index + 1)
        start = sum(sizes[: step.index])
        return call(aten.slice_scatter.default, base, new, dim, start, start + step.after.shape[dim], 1)
    if name == "diagonal":
        where = argument(0, "offset", 0), argument(1, "dim1", 0), argument(2, "dim2", 1)
        return call(aten.diagonal_scatter.default, base, new, *where)
    if name == "as_strided":
        return call(aten.as_strided_scatter.default, base, new, *args)
    raise refuse(
        f"writes in place through a view by {name}", "write to the tensor itself, or to a copy of the view"
    )

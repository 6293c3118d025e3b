"""Batches and results: any nesting of tuples, lists and dicts with tensors at its leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from emplace.errors import EmplaceError
from emplace.tracing.values import TensorInfo


def _normal(batch: Any) -> Any:
    """Mappings that PyTorch does not know (such as a tokenizer's) as dicts."""
    if isinstance(batch, Mapping) and type(batch) is not dict and pytree.tree_flatten(batch)[0] == [batch]:
        return dict(batch)
    return batch


def leaf_names(batch: Any) -> list[str]:
    """Names of the leaves, in PyTorch's order.

    >>> leaf_names({"x": 1, "pair": (2, 3)})
    ['x', 'pair.0', 'pair.1']
    >>> leaf_names(torch.zeros(()))
    ['input']
    """
    names: list[str] = []

    def walk(value: Any, path: str) -> None:
        children, spec = pytree.tree_flatten(value)
        if len(children) == 1 and children[0] is value:
            names.append(path)
            return
        if isinstance(value, (list, tuple)):
            for i, each in enumerate(value):
                walk(each, f"{path}.{i}" if path else f"{i}")
        elif isinstance(value, Mapping):
            for key in value:
                walk(value[key], f"{path}.{key}" if path else f"{key}")
        else:
            names.extend(f"{path}.{i}" if path else f"{i}" for i in range(len(children)))

    walk(batch, "")
    return [name if name and not name[0].isdigit() else ("input." + name).rstrip(".") for name in names]


class TreeBatch:
    """The structure, and the shapes, of the batch that was traced."""

    def __init__(self, batch: Any) -> None:
        batch = _normal(batch)
        leaves, self.spec = pytree.tree_flatten(batch)
        names = leaf_names(batch)
        self.names = [n for n, leaf in zip(names, leaves) if isinstance(leaf, torch.Tensor)]
        self.infos = [TensorInfo.of(leaf) if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
        self.constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        if not any(info is not None for info in self.infos):
            raise EmplaceError("batch", "has no tensor in it", "pass a tensor, or a tuple or dict of tensors")

    def flatten(self, batch: Any) -> list[torch.Tensor]:
        """Tensors in the order of the step's inputs."""
        leaves, spec = pytree.tree_flatten(_normal(batch))
        if spec != self.spec:
            raise EmplaceError(
                "batch",
                f"is {_short(spec)}, the step was traced with {_short(self.spec)}",
                "pass a batch of the same structure, or trace the step again",
            )
        tensors = []
        names = iter(self.names)
        for leaf, info, constant in zip(leaves, self.infos, self.constants):
            if info is None:
                if isinstance(leaf, torch.Tensor) or leaf != constant:
                    raise EmplaceError(
                        "batch",
                        f"has {_short(leaf)} where the traced step has the constant {constant!r}",
                        "trace the step again",
                    )
                continue
            name = next(names)
            if (
                not isinstance(leaf, torch.Tensor)
                or tuple(leaf.shape) != info.shape
                or leaf.dtype != info.dtype
            ):
                got = f"{leaf.dtype} {tuple(leaf.shape)}" if isinstance(leaf, torch.Tensor) else _short(leaf)
                raise EmplaceError(
                    f"batch {name}",
                    f"is {got}, the step was traced with {info.dtype} {info.shape}",
                    "pass tensors of the same types and shapes, or trace the step again",
                )
            tensors.append(leaf)
        return tensors

    def unflatten(self, tensors: list[torch.Tensor]) -> Any:
        """A batch with these tensors."""
        rest = iter(tensors)
        leaves = [
            next(rest) if info is not None else constant for info, constant in zip(self.infos, self.constants)
        ]
        return pytree.tree_unflatten(leaves, self.spec)


def _short(value: Any) -> str:
    text = str(value).replace("\n", " ")
    return text if len(text) < 100 else text[:97] + "..."


class TreeResult:
    """The structure of what the model returns, or a loss."""

    def __init__(self, result: Any) -> None:
        leaves, self.spec = pytree.tree_flatten(result)
        for leaf in leaves:
            if not isinstance(leaf, (torch.Tensor, int, float, bool, str, type(None))):
                raise EmplaceError(
                    "model",
                    f"returns a {type(leaf).__name__}, which is not made of tensors",
                    "return tensors in tuples, lists or dicts (of transformers: use_cache=False)",
                )
        self.leaves = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
        self.tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.names = [n for n, leaf in zip(leaf_names(result), leaves) if isinstance(leaf, torch.Tensor)]

    def forget(self) -> TreeResult:
        """Drops the fake tensors."""
        self.tensors = []
        return self

    def unflatten(self, leaves: list[torch.Tensor]) -> Any:
        """What the model returns, with these tensors."""
        rest = iter(leaves)
        return pytree.tree_unflatten([next(rest) if c is None else c[0] for c in self.leaves], self.spec)


def call_model(model: torch.nn.Module, batch: Any) -> Any:
    """``model(batch)``, ``model(*batch)`` or ``model(**batch)``, by what the batch is."""
    batch = _normal(batch)
    if isinstance(batch, dict):
        return model(**batch)
    if isinstance(batch, (tuple, list)):
        return model(*batch)
    return model(batch)

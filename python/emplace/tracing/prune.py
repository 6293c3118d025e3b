"""Removes nodes that cost nothing and whose results no op needs."""

from __future__ import annotations

from operator import getitem

from torch.fx import Graph, Node

from emplace.tracing.functional import FunctionalOp, kind_of

_MADE = {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "zeros",
    "zeros_like",
    "ones",
    "ones_like",
    "full",
    "scalar_tensor",
    "detach",
    "_local_scalar_dense",
}


def _costs(node: Node) -> bool:
    """True for an op that plain PyTorch would run as well, so that it belongs to the step even if no op
    reads it.
    """
    if node.op in ("placeholder", "output"):
        return True
    if node.op != "call_function" or node.target is getitem or not hasattr(node.target, "_schema"):
        return False
    if isinstance(node.target, FunctionalOp):
        return True
    kind = kind_of(node.target)
    return not (kind.view or kind.name in _MADE)


def prune(graph: Graph, random_nodes: set[str], gradients: set[str]) -> None:
    """Erases views, constants and arithmetic of numbers without readers."""
    for node in reversed(list(graph.nodes)):
        if (
            not node.users
            and node.name not in random_nodes
            and node.name not in gradients
            and not _costs(node)
        ):
            graph.erase_node(node)

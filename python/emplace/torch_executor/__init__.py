"""The executor of kind ``torch``: PyTorch measures placements of a traced step.

``emplace-exec-torch`` (``python -m emplace.torch_executor``) is started by ``emplace evaluate --executor
torch``, by runs and by nodes that join one. It speaks the protocol of every executor process
(docs/reference/wire_format.md). ``evaluate_traced`` measures in this process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emplace.graph import Graph

__all__ = ["evaluate_traced"]


def evaluate_traced(
    graph: Graph,
    placement: Any,
    *,
    warmups: int | None = None,
    samples: int | None = None,
    batch: Any = None,
    threads: int = 1,
) -> dict[str, Any]:
    """Measures a placement of a traced graph here: the JSON object of ``emplace evaluate --executor torch``.

    The user's model and optimizer stay as they are. Torch is imported by the call.
    """
    from emplace.torch_executor.here import evaluate_here

    return evaluate_here(graph, placement, warmups, samples, batch, threads)

"""emplace: which operation of a neural network runs on which device.

    import emplace as em
    g = em.trace(model, batch, loss=loss_fn, optimizer=opt)    # or em.read("model.onnx")
    p = em.place(g, em.machine("h100 x 4, epyc9654"), budget="30s")
    step = p.apply({"gpu:0": "cuda:0", "gpu:1": "cuda:1"})

Bad input raises EmplaceError: one line with where, what and cure. docs/guide/python.md is the guide.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from emplace.errors import EmplaceError, LossyExport, NoPlacement, UnknownName, need
from emplace.graph import Graph, Op, read
from emplace.installation import check as _check_installation
from emplace.machines import Device, Machine
from emplace.machines import Machine as machine
from emplace.placement import Placement
from emplace.placing import open_placement, place
from emplace.results import Comparison, Costs, Explanation, Measurement
from emplace.runs import Run, compare, evaluate, open_run, run
from emplace.version import __version__ as __version__

if TYPE_CHECKING:
    import torch

__all__ = [
    "Comparison",
    "Costs",
    "Device",
    "EmplaceError",
    "Explanation",
    "Graph",
    "LossyExport",
    "Machine",
    "Measurement",
    "NoPlacement",
    "Op",
    "Placement",
    "Run",
    "UnknownName",
    "compare",
    "evaluate",
    "machine",
    "open_placement",
    "open_run",
    "place",
    "read",
    "run",
    "trace",
    "verify",
]

_check_installation(os.path.dirname(os.path.dirname(__file__)))


def trace(
    model: torch.nn.Module,
    batch: Any,
    loss: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    **options: Any,
) -> Graph:
    """Traces a training step (forward, loss, backward, optimizer) or, without a loss, an inference pass.

    ``loss(model, batch)`` returns a scalar. ``emplace.tracing`` lists the options.
    """
    need("em.trace", torch="torch")
    from emplace.tracing import trace as traced

    graph: Graph = traced(model, batch, loss=loss, optimizer=optimizer, **options)
    return graph


def verify(graph: Graph, placement: Placement, batch: Any = None, **options: Any) -> Any:
    """Runs the traced step as placed and on one device: equal bits on CPUs, else the first op that
    differs."""
    need("em.verify", torch="torch")
    from emplace.applying import verify as verified

    return verified(graph, placement, batch, **options)

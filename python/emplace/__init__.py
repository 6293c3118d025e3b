"""emplace: which operation of a neural network runs on which device.

    import emplace as em
    g = em.trace(model, batch, loss=loss_fn, optimizer=opt)    # or em.read("model.onnx")
    p = em.place(g, em.machine("h100 x 4, epyc9654"), budget="30s")
    step = p.apply({"gpu:0": "cuda:0", "gpu:1": "cuda:1"})

Bad input raises EmplaceError: one line with where, what and cure. docs/guide/python.md is the guide.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
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

    from emplace.checkpoints import Checkpointing

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
    "checkpoint_blocks",
    "checkpointing",
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


def checkpointing(
    placement: Placement,
    modules: str | Sequence[str] | None = None,
    *,
    selective: bool = True,
    reserve: str | None = None,
) -> Checkpointing:
    """The memory plan of a placement for PyTorch's own training loop: checkpoints of modules, in which the
    ops of the plan run again (or, not ``selective``, all ops), and saved tensors that wait on other devices.

    ``modules`` is a pattern ("layers.*") or a list of them; without it those are chosen whose step is the
    fastest that fits. ``reserve`` is the memory kept free per device, if less than for the placement: what
    differs from the plan may take a little more. It is a warning of the class :class:`LossyExport`.
    """
    need("em.checkpointing", torch="torch")
    from emplace.checkpoints import checkpointing as made
    from emplace.checkpoints import warn_of_losses

    return warn_of_losses(made(placement, modules, selective, reserve))


def checkpoint_blocks(placement: Placement, pattern: str | None = None) -> Checkpointing:
    """What gradient checkpointing of every block takes on the devices of a placement, to compare with a plan.

    ``pattern`` names the blocks, as in ``"model.layers.*"``; without it they are the modules with numbers.
    """
    need("em.checkpoint_blocks", torch="torch")
    from emplace.checkpoints import checkpoint_blocks as made

    return made(placement, pattern)


def verify(graph: Graph, placement: Placement, batch: Any = None, **options: Any) -> Any:
    """Runs the traced step as placed and on one device: equal bits on CPUs, else the first op that
    differs."""
    need("em.verify", torch="torch")
    from emplace.applying import verify as verified

    return verified(graph, placement, batch, **options)

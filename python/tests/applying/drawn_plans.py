"""Memory plans that are drawn at random."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import emplace as em
from emplace.applying.lowering import LoweredStep


def choices(graph: em.Graph) -> tuple[list[str], list[str]]:
    """The ops of the forward pass that run, and those of them whose first output the backward pass reads."""
    low = LoweredStep(graph.step)  # type: ignore[arg-type]
    forward = {k.node for k in low.kernels if k.node.meta.get("phase") == "forward"}
    late = set()
    for kernel in low.kernels:
        if kernel.node in forward:
            continue
        for value in kernel.reads:
            whole = low.values[low.buffers[low.buffers[low.values[value].buffer].whole].value]
            owner = low.buffers[whole.buffer].owner
            if owner in forward and whole.output in (None, 0):
                late.add(owner)
    return [low.op_of(n) for n in forward], [low.op_of(n) for n in late]


def drawn_plan(
    graph: em.Graph,
    placement: em.Placement,
    machine: Any,
    draw: random.Random,
    folder: Path,
    share: float = 0.5,
) -> em.Placement:
    """A placement with a plan: a share of what may be recomputed is, and of the rest what may be moved."""
    runs, waits = choices(graph)
    recompute = sorted(name for name in sorted(runs) if draw.random() < share)
    move = [
        {"tensor": name, "to": draw.choice(placement.devices)}
        for name in sorted(set(waits) - set(recompute))
        if draw.random() < share
    ]
    document = json.loads(json.dumps(placement.document))
    document |= {"version": 2, "recompute": recompute, "move": move}
    file = folder / "plan.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    return em.open_placement(file, graph, machine)

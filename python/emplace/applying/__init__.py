"""Runs a traced training step on the devices of a placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from emplace.applying.micro_batches import MicroBatches
from emplace.applying.step import AppliedStep, OpFailed
from emplace.applying.verifying import Verification, verify

if TYPE_CHECKING:
    from emplace.tracing.step import TracedStep

__all__ = ["AppliedStep", "MicroBatches", "OpFailed", "Verification", "apply", "verify"]


def apply(
    step: TracedStep,
    placement: Mapping[str, str],
    devices: Mapping[str, Any],
    *,
    threads: int | None = None,
    plan: Sequence[Mapping[str, Any]] = (),
    micro_batches: MicroBatches | None = None,
    lean: bool = False,
) -> AppliedStep:
    """One training step as placed.

    ``placement`` gives the device of each op of the step's graph, ``devices`` the torch device that each of
    these names stands for on this machine. Several names may stand for "cpu": each is then a logical device
    with a thread of its own and ``threads`` threads inside ATen (as many as PyTorch uses if not given).
    ``plan`` are the ops of the graph of a memory plan (``emplace export --to graph``). With ``micro_batches``
    the step takes a list of them, adds up their gradients and updates once. ``lean`` takes the memory that
    the simulator counts: state is overwritten as soon as nothing reads its old value, and copies have no
    gaps. A failure then leaves half a step, and some kernels round otherwise.
    """
    return AppliedStep(
        step, placement, devices, threads=threads, plan=plan, micro_batches=micro_batches, lean=lean
    )

"""The most memory that a placed step has on each device: the storages that exist while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from live_storages import LiveStorages
from simulated_order import SimulatedOrder

from emplace.applying.step import AppliedStep
from emplace.placement import Placement


def peaks_as_simulated(placement: Placement, batch: Any, *, lean: bool = True) -> dict[str, int]:
    """Bytes at the peak by device, of a step whose tasks start and end in the order of the simulated ones."""

    def prepare(step: AppliedStep, count: LiveStorages) -> None:
        bound = step._bound
        bound.pool.close()
        bound.pool = SimulatedOrder(bound.plan, bound.devices, placement.schedule, count)  # type: ignore

    return _peaks(placement, batch, lean, prepare)


def peaks_of_threads(placement: Placement, batch: Any, *, lean: bool = True) -> dict[str, int]:
    """The same of a step whose devices run at one time, as they always do."""

    def prepare(step: AppliedStep, count: LiveStorages) -> None:
        for number in range(len(placement.devices)):
            step._bound.pool.call(lambda: count.mode(number).__enter__(), number)

    return _peaks(placement, batch, lean, prepare)


def _peaks(
    placement: Placement, batch: Any, lean: bool, prepare: Callable[[AppliedStep, LiveStorages], None]
) -> dict[str, int]:
    devices = dict.fromkeys(placement.devices, "cpu")
    with placement.apply(devices, threads=1, lean=lean) as step:
        step(batch)  # The optimizer makes its state in the first step.
        count = LiveStorages(len(devices))
        prepare(step, count)
        bound, run = step._bound, step._bound.run

        def counted(arguments: list[Any]) -> Any:
            there = dict(zip(bound.input_slots(), arguments)) | dict(bound._own_constants)
            for _, slot, device in bound.plan.initial:
                count.claim(device, [there[slot]])
            return run(arguments)

        bound.run = counted  # type: ignore[method-assign]
        step(batch)
    return dict(zip(bound.plan.devices, count.peak))

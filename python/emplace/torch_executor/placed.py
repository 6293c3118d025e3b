"""The steps of one placement: their times, what each device holds, and caps of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from emplace.applying.devices import CudaDevice
from emplace.applying.step import BoundPlan
from emplace.applying.tasks import Kind
from emplace.torch_executor.memory import Memory, Peak
from emplace.wire.executor_messages import DeviceFacts


class OutOfMemory(Exception):
    """A device's cap is less than what the plan needs there."""

    def __init__(self, what: str, device: str, asked: int, free: int) -> None:
        where = f"{what} on {device} requested {asked} bytes"
        super().__init__(f"oom: {where}, the largest free block has {free}")
        self.over = max(1, asked - free)


class PlacedSteps:
    """Steps of one placement.

    The first one seeds the random numbers; ``progress`` is called after each.
    """

    def __init__(
        self,
        bound: BoundPlan,
        facts: list[DeviceFacts],
        arguments: list[torch.Tensor],
        *,
        seed: int,
        progress: Callable[[], None],
    ) -> None:
        self.bound = bound
        self._facts = facts
        self._on_cpu = arguments
        self._seed = seed
        self._progress = progress
        self.plan = bound.plan
        self.memory = Memory(bound.plan)
        self.steps = 0
        #: Seconds of each step, and what each device was busy in it.
        self.taken: list[tuple[float, Any]] = []
        self._peaks: list[int] = list(self.memory.resident)
        self._cuda = [(n, d) for n, d in enumerate(bound.devices) if isinstance(d, CudaDevice)]
        self._placed: list[torch.Tensor] | None = None

    def check_state(self) -> None:
        """State alone must fit."""
        for number, (fact, need) in enumerate(zip(self._facts, self.memory.resident)):
            if need > fact.memory_bytes:
                raise OutOfMemory("state", fact.name, need, fact.memory_bytes)

    def step(self, timed: bool = False) -> float:
        """Runs one step; returns its seconds."""
        arguments = self._arguments()
        if self.steps == 0:
            torch.manual_seed(self._seed)
            for _, device in self._cuda:
                torch.cuda.reset_peak_memory_stats(device.device)
        for _, device in self._cuda:
            device.timed = timed
        try:
            with torch.no_grad():
                self.bound.run(arguments)
        finally:
            self._progress()
        self.steps += 1
        times = self.bound.times
        busy = np.zeros(len(self._facts))
        for task in self.plan.tasks:
            if task.kind is not Kind.COPY:
                busy[task.device] += (times.end[task.number] - times.start[task.number]) * 1e-9
        seconds = (times.end_ns - times.begin_ns) * 1e-9
        self.taken.append((seconds, busy))
        if self.steps == 1:
            self._check_peaks()
        return seconds

    def busy_s(self, seconds: float) -> Any:
        """Busy times by device, of the step whose time is nearest to the one that is reported."""
        return min(self.taken, key=lambda step: abs(step[0] - seconds))[1]

    def peak_bytes(self) -> Any:
        """Peak memory [bytes] by device: of the plan as its tasks ran; for a GPU, of its allocator."""
        found = np.array(self._peaks, "<i8")
        for number, device in self._cuda:
            found[number] = torch.cuda.max_memory_allocated(device.device)
        return found

    def take_peaks(self) -> list[Peak]:
        """The peaks of the last step, which become those that are reported."""
        peaks = self.memory.peaks(self.bound.times)
        self._peaks = [peak.bytes for peak in peaks]
        return peaks

    def _check_peaks(self) -> None:
        peaks = self.take_peaks()
        gpus = {number for number, _ in self._cuda}
        for number, (fact, peak) in enumerate(zip(self._facts, peaks)):
            if peak.bytes > fact.memory_bytes and number not in gpus:
                over = self.memory.first_above(self.bound.times, number, fact.memory_bytes)
                free = fact.memory_bytes - (over.bytes - over.asked)
                raise OutOfMemory(f"'{self.plan.tasks[over.task].op}'", fact.name, over.asked, free)

    def _arguments(self) -> list[torch.Tensor]:
        if not self._cuda:
            return self._on_cpu
        if self._placed is None:
            self._placed = [
                tensor.to(self.bound.devices[self.plan.home(n)].device, copy=True)
                if tensor.dim() or self.plan.lowered.step.inputs[n].kind != "optimizer"
                else tensor
                for n, tensor in enumerate(self._on_cpu)
            ]
        return self._placed

"""Measures placements of a traced step with PyTorch."""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from emplace.applying.devices import CpuDevice, CudaDevice, Device, copy_as_it_lies, torch_device
from emplace.applying.in_place import InPlace
from emplace.applying.lowering import LoweredStep
from emplace.applying.plan import StepPlan
from emplace.applying.running import Pool
from emplace.applying.step import BoundPlan, OpFailed
from emplace.applying.tasks import Kind
from emplace.applying.verifying import Verification, arguments_of, compare_with_one_device
from emplace.errors import EmplaceError
from emplace.torch_executor.channel import INVALID, RUN_FAILED, Refused
from emplace.torch_executor.placed import OutOfMemory, PlacedSteps
from emplace.torch_executor.timing import Timing, deviation, line_of, time_steps
from emplace.wire.executor_messages import DeviceFacts, Measurement, ProfileFacts, ScheduleFacts

if TYPE_CHECKING:
    from emplace.tracing.step import TracedStep

#: "measured in PyTorch" of ``placement/measurement.h``.
LABEL = 4
_LINK_SIZES = [1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24]
_LINK_ROUNDS = 9


class DeviceLost(Exception):
    """A GPU is unusable until the process restarts."""


def on_this_machine(
    facts: list[DeviceFacts], wanted: Mapping[str, str], threads: int
) -> tuple[list[Device], list[str]]:
    """The devices, and the names of those that CPU cores stand for though they are of another kind.

    A GPU of the placement is the next CUDA device of this machine; without one, a logical CPU device stands
    for it.
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    made: list[Device] = []
    stand_ins, next_gpu = [], 0
    for fact in facts:
        name = wanted.get(fact.name)
        if name is None and fact.kind != "cpu" and gpus:
            if next_gpu >= gpus:
                raise EmplaceError(
                    f"device '{fact.name}'",
                    f"is one of more GPUs than this machine has ({gpus})",
                    "use a machine of as many, or --devices",
                )
            name, next_gpu = f"cuda:{next_gpu}", next_gpu + 1
        device = torch_device(fact.name, name or "cpu")
        if device.type == "cpu":
            made.append(CpuDevice(fact.name, threads))
            if fact.kind != "cpu":
                stand_ins.append(fact.name)
        else:
            made.append(CudaDevice(fact.name, device))
            total = torch.cuda.get_device_properties(device).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, fact.memory_bytes / total), device)
    return made, stand_ins


class TorchExecutor:
    """One graph on the devices of this machine. One thread at a time."""

    def __init__(
        self,
        step: TracedStep,
        document: Mapping[str, Any],
        facts: list[DeviceFacts],
        devices: list[Device],
        timing: Timing,
        *,
        batch: Any = None,
        seed: int = 0,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        self.facts = facts
        self.lowered = LoweredStep(step)
        self._in_place = InPlace(self.lowered)
        self._devices = devices
        self._timing = timing
        self._best_s = math.inf
        self.seed = seed
        self.progress = progress
        self.ops = [op["name"] for op in document["ops"]]
        self._number = {name: number for number, name in enumerate(self.ops)}
        for kernel in self.lowered.kernels:
            number = self._number.get(kernel.op)
            kernel.update = number is not None and document["ops"][number].get("phase") == "update"
        self._first_tensor = np.cumsum([0, *(len(op["outputs"]) for op in document["ops"])])
        self.arguments = arguments_of(step, batch, seed)
        self._pool = Pool(devices)
        self._threads = next((d.threads for d in devices if isinstance(d, CpuDevice)), 1)

    # The four tasks.

    def measure(self, placement: bytes) -> Measurement:
        """A measurement; not valid if it does not run."""
        return self._measure(placement, traced=False)[0]

    def trace(self, placement: bytes) -> tuple[Measurement, ScheduleFacts]:
        """A measurement, and the schedule of one further step."""
        return self._measure(placement, traced=True)

    def nothing(self) -> Measurement:
        """The measurement of a placement that did not run."""
        count = len(self.facts)
        return Measurement(
            peak_bytes=np.zeros(count, np.int64), busy_s=np.zeros(count, np.float64), label=LABEL
        )

    def verify(self, placement: bytes) -> Verification:
        """Whether a step as placed gives the bits of the step on one CPU device."""
        try:
            return compare_with_one_device(
                self.lowered,
                self._mapping(placement),
                self.arguments,
                threads=self._threads,
                progress=self.progress,
            )
        except (OpFailed, MemoryError) as error:
            raise Refused(RUN_FAILED, str(error)) from error

    def profile(self) -> ProfileFacts:
        """What each op costs on each device, and each link."""
        columns: dict[str, list[Any]] = {key: [] for key in ("ops", "samples", "us", "mad_us", "overhead")}
        step_time = 0.0
        for device in range(len(self._devices)):
            run = self._run(bytes([device]) * len(self.ops))
            kernels = [t for t in run.plan.tasks if t.kind is Kind.KERNEL and t.op in self._number]
            spent: list[list[float]] = [[] for _ in kernels]
            overheads: list[float] = []

            def step() -> float:
                seconds = run.step(timed=True)
                times = run.bound.times
                for at, task in enumerate(kernels):
                    spent[at].append((times.end[task.number] - times.start[task.number]) * 1e-3)
                tasks = sum(end - start for start, end in zip(times.start, times.end)) * 1e-9
                overheads.append(max(0.0, seconds - tasks) * 1e6 / max(1, len(run.plan.tasks)))
                return seconds

            try:
                run.check_state()
                for _ in range(self._timing.warmups):
                    run.step()
                taken, _ = time_steps(dataclasses.replace(self._timing, warmups=0), step)
            except (OutOfMemory, OpFailed) as error:
                raise Refused(
                    RUN_FAILED,
                    f"profile: the graph does not fit on device {self.facts[device].name} alone"
                    f" ({error}); increase its memory",
                ) from error
            step_time = taken if device == 0 else step_time
            columns["ops"] += [self._number[task.op] for task in kernels]
            columns["samples"] += [len(values) for values in spent]
            columns["us"] += [statistics.median(values) for values in spent]
            columns["mad_us"] += [deviation(values) for values in spent]
            columns["overhead"].append(statistics.median(overheads))
        sources, targets, latencies, rates = zip(*self._links()) if len(self._devices) > 1 else ((),) * 4
        return ProfileFacts(
            devices=len(self._devices),
            ops=np.array(columns["ops"], np.uint32),
            samples=np.array(columns["samples"], np.uint32),
            us=np.array(columns["us"]),
            mad_us=np.array(columns["mad_us"]),
            synthetic=np.zeros(len(columns["ops"]), np.uint8),
            sources=np.array(sources, np.uint32),
            targets=np.array(targets, np.uint32),
            latency_s=np.array(latencies),
            bytes_per_s=np.array(rates),
            task_overhead_us=np.array(columns["overhead"]),
            step_time_s=step_time,
        )

    def close(self) -> None:
        """Ends the threads of the devices."""
        self._pool.close()

    # Parts of the tasks.

    def _mapping(self, placement: bytes) -> dict[str, str]:
        if len(placement) != len(self.ops) or (placement and max(placement) >= len(self.facts)):
            raise Refused(INVALID, f"placement: has {len(placement)} devices for {len(self.ops)} ops")
        return {op: self.facts[device].name for op, device in zip(self.ops, placement)}

    def _run(self, placement: bytes) -> PlacedSteps:
        plan = StepPlan(
            self.lowered,
            self._mapping(placement),
            [fact.name for fact in self.facts],
            early=True,
            in_place=self._in_place,
        )
        return PlacedSteps(
            BoundPlan(plan, self._devices, self._pool),
            self.facts,
            self.arguments,
            seed=self.seed,
            progress=self.progress,
        )

    def _measure(self, placement: bytes, traced: bool) -> tuple[Measurement, ScheduleFacts]:
        found, schedule = self.nothing(), ScheduleFacts()
        run = self._run(placement)
        try:
            run.check_state()
            taken, samples = time_steps(self._timing, run.step, self._best_s)
            self._best_s = min(self._best_s, taken)
            busy = run.busy_s(taken)
            gpus = any(isinstance(device, CudaDevice) for device in self._devices)
            if traced or gpus:
                # Times of ops on GPUs are those of their execution in this step.
                shown = run.step(timed=True)
                busy = run.busy_s(shown) if gpus else busy
            if traced:
                schedule = self._schedule(run)
                run.take_peaks()  # The peaks of the step that is shown.
            found.step_time_s, found.samples_s, found.busy_s = float(taken), np.array(samples), busy
            found.bytes_moved, found.valid = run.plan.moved_bytes, True
        except OutOfMemory as full:
            found.failure, found.bytes_over = str(full), full.over
        except OpFailed as failed:
            found.failure, found.bytes_over = self._failure(failed)
        found.peak_bytes = run.peak_bytes()
        return found, schedule

    def _failure(self, failed: OpFailed) -> tuple[str, int]:
        """Failure and missing bytes of a step whose op raised."""
        text = str(failed.error)
        kinds = (torch.cuda.OutOfMemoryError,) if hasattr(torch.cuda, "OutOfMemoryError") else ()
        if (
            isinstance(failed.error, (MemoryError, *kinds))
            or "not enough memory" in text
            or "DefaultCPUAllocator" in text
        ):
            for device in self._devices:
                if isinstance(device, CudaDevice):
                    torch.cuda.empty_cache()
            return f"oom: '{failed.op}' on {failed.device}: {text.splitlines()[0][:200]}", 1
        if "CUDA error" in text or "device-side assert" in text:
            raise DeviceLost(f"'{failed.op}' on {failed.device}: {text.splitlines()[0][:300]}")
        return f"failed: {failed.where}: {failed.what}"[:500], 0

    def _schedule(self, run: PlacedSteps) -> ScheduleFacts:
        """The last step as columns."""
        plan, times, low = run.plan, run.bound.times, self.lowered
        at = times.begin_ns
        ops = sorted(
            (times.start[t.number], times.end[t.number], self._number[t.op], t.device)
            for t in plan.tasks
            if t.kind is Kind.KERNEL and t.op in self._number
        )
        copies = sorted(
            (
                times.start[t.number],
                times.end[t.number],
                self._tensor(low.value_of[t.node]),
                t.source,
                t.device,
                t.bytes,
            )
            for t in plan.tasks
            if t.kind is Kind.COPY and not t.returns
        )
        levels = run.memory.levels(times)

        def seconds(column: list[int]) -> Any:
            return (np.array(column, "<i8") - at).astype("<f8") * 1e-9

        def numbers(column: list[int]) -> Any:
            return np.array(column, np.uint32)

        return ScheduleFacts(
            ops=numbers([o[2] for o in ops]),
            op_devices=numbers([o[3] for o in ops]),
            op_start_s=seconds([o[0] for o in ops]),
            op_end_s=seconds([o[1] for o in ops]),
            tensors=numbers([c[2] for c in copies]),
            sources=numbers([c[3] for c in copies]),
            targets=numbers([c[4] for c in copies]),
            transfer_bytes=np.array([c[5] for c in copies], np.int64),
            transfer_start_s=seconds([c[0] for c in copies]),
            transfer_end_s=seconds([c[1] for c in copies]),
            level_devices=numbers([d for _, d, _ in levels]),
            level_at_s=seconds([max(n, at) for n, _, _ in levels]),
            level_bytes=np.array([b for _, _, b in levels], np.int64),
        )

    def _tensor(self, value: int) -> int:
        """The number of a value's tensor in the parent's graph."""
        entry = self.lowered.values[value]
        node = entry.node
        if entry.output is None:
            return int(self._first_tensor[self._number[self.lowered.op_of(node)]])
        source: Any = node.args[0]
        described = source.meta.get("tensors") or ()
        before = sum(info is not None for info in described[: entry.output]) if described else entry.output
        return int(self._first_tensor[self._number[self.lowered.op_of(source)]]) + before

    def _links(self) -> list[tuple[int, int, float, float]]:
        """Latency and rate of each ordered pair: medians of copies that the receiving device makes."""
        found = []
        for source, giver in enumerate(self._devices):
            for target in range(len(self._devices)):
                if source == target:
                    continue
                medians = []
                for size in _LINK_SIZES:
                    seconds = []
                    for _ in range(_LINK_ROUNDS):
                        tensor = self._pool.call(
                            lambda: torch.ones(size, dtype=torch.uint8, device=giver.device), source
                        )
                        seconds.append(self._pool.call(lambda: self._copied(tensor, target), target))
                        self.progress()
                    medians.append(statistics.median(seconds[1:]))
                found.append((source, target, *line_of(_LINK_SIZES, medians)))
        return found

    def _copied(self, tensor: torch.Tensor, target: int) -> float:
        gpus = [d.device for d in self._devices if isinstance(d, CudaDevice)]
        for gpu in gpus:
            torch.cuda.synchronize(gpu)
        begin = time.perf_counter()
        copy_as_it_lies(tensor, self._devices[target].device)
        for gpu in gpus:
            torch.cuda.synchronize(gpu)
        return time.perf_counter() - begin

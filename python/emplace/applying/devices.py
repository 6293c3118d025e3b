"""The devices of a placement on this machine: what copies to them, and what orders their work.

A device of a placement is a CUDA device or a logical CPU device. Any number of logical CPU devices share the
machine's memory: they compute with the same kernels, and what crosses between them is really copied.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from emplace.applying.tasks import Kind, Task
from emplace.errors import EmplaceError


def torch_device(name: str, wanted: Any) -> torch.device:
    """The torch device that stands for a device of the placement; refused if this machine has none."""
    where = f"device '{name}'"
    try:
        device = torch.device(wanted)
    except (RuntimeError, TypeError) as error:
        raise EmplaceError(
            where, f"{wanted!r} is no torch device", "name one such as 'cpu' or 'cuda:0'"
        ) from error
    if device.type == "cpu":
        return torch.device("cpu")
    if device.type != "cuda":
        raise EmplaceError(where, f"'{device}' is neither a CPU nor a CUDA device", "use 'cpu' or 'cuda:N'")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    index = device.index if device.index is not None else 0
    if index >= count:
        has = f"has {count} CUDA device{'s' if count != 1 else ''}" if count else "has no CUDA device"
        raise EmplaceError(
            where,
            f"'{device}' is not there: this machine {has}",
            f"use devices={{'{name}': 'cpu'}} or another machine",
        )
    return torch.device("cuda", index)


def copy_as_it_lies(
    tensor: torch.Tensor, device: torch.device, *, gaps: bool = True, non_blocking: bool = False
) -> torch.Tensor:
    """A copy with the strides and the alignment of the original, so that kernels give the same bits on both.

    Only the tensor's own elements move; gaps between them are left as they are. Without ``gaps`` the elements
    follow one another in the order of their addresses: each view of the original is one of the copy, too.
    """
    if not isinstance(tensor, torch.Tensor):
        return tensor  # A Python number.
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.numel() == 0:
        return tensor.to(device, copy=True)
    sizes, strides = tensor.size(), list(tensor.stride())
    # Dimensions of stride 0 (expand) have one element.
    source = tensor
    for at, (size, stride) in enumerate(zip(sizes, strides)):
        if stride == 0 and size > 1:
            source = source.narrow(at, 0, 1)
    span = elements = 1
    for at in sorted(range(source.dim()), key=strides.__getitem__):
        size, stride = source.size(at), strides[at]
        if size == 1:
            continue
        if stride < span:
            return tensor.to(device, copy=True)  # Elements overlap.
        span += (size - 1) * stride
        if not gaps:
            strides[at] = elements
            elements *= size
    aligned = max(1, 64 // tensor.element_size())
    offset = tensor.storage_offset() % aligned if gaps else 0
    memory = torch.empty(offset + span if gaps else elements, dtype=tensor.dtype, device=device)
    memory.as_strided(source.size(), strides, offset).copy_(source, non_blocking=non_blocking)
    return memory.as_strided(sizes, strides, offset)


class CpuDevice:
    """A logical CPU device: one thread that runs its tasks, with a number of threads inside ATen.

    ``gaps``: a part of a tensor keeps its strides when it is copied, as plain PyTorch's kernels see it.
    """

    kind = "cpu"

    def __init__(self, name: str, threads: int, *, gaps: bool = True) -> None:
        self.name = name
        self.device = torch.device("cpu")
        self.threads = threads
        self.gaps = gaps

    def enter(self) -> None:
        """Called once by the thread that runs the device's tasks."""
        torch.set_grad_enabled(False)
        torch.set_num_threads(self.threads)

    def begin(self, tasks: int) -> None:
        """Called at the start of a step."""

    def copy(self, tensor: torch.Tensor, task: Task, source: Device) -> torch.Tensor:
        """The tensor's copy on this device."""
        if isinstance(source, CudaDevice):
            return source.fetch(tensor, task)
        return copy_as_it_lies(tensor, self.device, gaps=self.gaps or task.strided)

    def before(self, task: Task, devices: list[Device]) -> None:
        """Orders a task after those that it waits for."""

    def after(self, task: Task) -> None:
        """Marks the end of a task."""

    def finish(self) -> None:
        """Waits until all tasks of the step are done."""

    def elapsed(self, starts: list[int], ends: list[int], tasks: list[Task]) -> None:
        """Replaces times of launches by times of execution."""


class CudaDevice:
    """A GPU: a stream that computes, and a stream for the copies to it.

    The thread of the device issues tasks; it never waits for one. A task whose input comes from elsewhere
    makes its stream wait for the event at the end of what made it. The step waits once for the device.
    """

    kind = "cuda"
    #: Its kernels have bits of their own: gaps would be lost memory.
    gaps = False

    def __init__(self, name: str, device: torch.device) -> None:
        self.name = name
        self.device = device
        self.compute = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.fetches = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.timed = False
        self._ends: dict[int, Any] = {}
        self._starts: dict[int, Any] = {}
        self._origin: tuple[Any, int] | None = None

    def enter(self) -> None:
        torch.set_grad_enabled(False)
        torch.cuda.set_device(self.device)
        torch.cuda.set_stream(self.compute)

    def begin(self, tasks: int) -> None:
        self._ends, self._starts = {}, {}
        current = torch.cuda.current_stream(self.device)
        for stream in (self.compute, self.copies, self.fetches):
            stream.wait_stream(current)  # What the user has issued before the step.
        if self.timed:
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            torch.cuda.synchronize(self.device)
            event.record(self.compute)
            event.synchronize()
            self._origin = (event, time.perf_counter_ns())

    def copy(self, tensor: torch.Tensor, task: Task, source: Device) -> torch.Tensor:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        if isinstance(source, CudaDevice) and tensor.device.type == "cpu":
            return tensor.clone()  # A count of steps: it stays in the CPU's memory.
        with torch.cuda.stream(self.copies):
            if isinstance(source, CudaDevice):
                source.order(self.copies, task.after)
            self._start(task, self.copies)
            made = copy_as_it_lies(tensor, self.device, gaps=task.strided, non_blocking=True)
            if isinstance(source, CudaDevice):
                tensor.record_stream(self.copies)
            made.record_stream(self.compute)
            self._end(task, self.copies)
        return made

    def fetch(self, tensor: torch.Tensor, task: Task) -> torch.Tensor:
        """A copy in the CPU's memory. Waits for it: the thread of a CPU device calls this."""
        if not isinstance(tensor, torch.Tensor) or tensor.device.type == "cpu":
            return copy_as_it_lies(tensor, torch.device("cpu"), gaps=task.strided)
        with torch.cuda.stream(self.fetches):
            self.order(self.fetches, task.after)
            made = copy_as_it_lies(tensor, torch.device("cpu"), gaps=task.strided)
            tensor.record_stream(self.fetches)
        self.fetches.synchronize()
        return made

    def order(self, stream: Any, tasks: list[int]) -> None:
        """Makes a stream wait for tasks of this device."""
        for number in tasks:
            event = self._ends.get(number)
            if event is not None:
                stream.wait_event(event)

    def before(self, task: Task, devices: list[Device]) -> None:
        for device in devices:
            if isinstance(device, CudaDevice):
                device.order(self.compute, task.after)
        if task.kind is not Kind.COPY:
            self._start(task, self.compute)

    def after(self, task: Task) -> None:
        if task.kind is not Kind.COPY and (task.next_elsewhere or self.timed):
            self._end(task, self.compute)

    def finish(self) -> None:
        torch.cuda.synchronize(self.device)

    def elapsed(self, starts: list[int], ends: list[int], tasks: list[Task]) -> None:
        if self._origin is None:
            return
        first, at = self._origin
        for number, event in self._starts.items():
            starts[number] = at + int(first.elapsed_time(event) * 1e6)
        for number, event in self._ends.items():
            if number in self._starts:
                ends[number] = at + int(first.elapsed_time(event) * 1e6)

    def _start(self, task: Task, stream: Any) -> None:
        if self.timed:
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record(stream)
            self._starts[task.number] = event

    def _end(self, task: Task, stream: Any) -> None:
        event = torch.cuda.Event(enable_timing=self.timed)  # type: ignore[no-untyped-call]
        event.record(stream)
        self._ends[task.number] = event


Device = CpuDevice | CudaDevice

"""Runs the tasks of a plan: one thread per device, each with its own queue of ready tasks.

A device takes its copies first, in the order in which they were requested, then the ready kernel that the
trace issued first, as the simulator's devices do. Only the thread of a device changes what belongs to it;
what ends elsewhere arrives as a message. A step takes no lock.
"""

from __future__ import annotations

import collections
import functools
import heapq
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from emplace.applying.binding import Call, Values
from emplace.applying.devices import Device
from emplace.applying.plan import StepPlan
from emplace.applying.tasks import Kind, Task

_STOP = -1


Command = Callable[[], None]


class Times:
    """Start and end of each task of the last step, in nanoseconds of ``time.perf_counter_ns``."""

    def __init__(self, tasks: int) -> None:
        self.start = [0] * tasks
        self.end = [0] * tasks
        self.begin_ns = 0
        self.end_ns = 0


class BoundTask:
    """What a thread needs of a task, without looking anything up."""

    __slots__ = ("task", "call", "single", "outputs", "views", "drops", "local", "tokens", "source", "write")

    def __init__(
        self,
        task: Task,
        call: Call | None,
        views: list[tuple[Call, list[tuple[int | None, int]]]],
        plan: StepPlan,
    ) -> None:
        self.task = task
        self.call = call
        outputs = [(at, slot) for at, slot in task.outputs]
        self.single = outputs[0][1] if len(outputs) == 1 and outputs[0][0] is None else -1
        self.outputs = outputs
        self.views = views
        made = [slot for _, slot in outputs] + [slot for _, some in views for _, slot in some]
        #: Made, but read by no task once the views exist.
        self.drops = [slot for slot in made if plan.uses[slot] == 0]
        self.local = [slot for slot in task.reads if slot not in plan.shared]
        self.tokens = [slot for slot in task.reads if slot in plan.shared]
        self.source = next(iter(task.arguments.values())) if task.kind is not Kind.KERNEL else -1
        #: Write: slot of the state that is overwritten.
        self.write = -1


class Step:
    """The state of one run of the plan."""

    def __init__(
        self, plan: StepPlan, bound: list[BoundTask], devices: list[Device], values: Values, times: Times
    ) -> None:
        self.bound = bound
        self.devices = devices
        self.values = values
        self.times = times
        self.waits = [task.waits for task in plan.tasks]
        self.left = plan.uses.copy()
        self.tokens = {slot: [None] * plan.uses[slot] for slot in plan.shared}
        self.inboxes: list[queue.SimpleQueue[int]] = [queue.SimpleQueue() for _ in devices]
        self.failed: tuple[int, BaseException] | None = None

    def stop(self, number: int, error: BaseException) -> None:
        """Ends the step on all devices; the first error counts."""
        if self.failed is None:
            self.failed = (number, error)
        for inbox in self.inboxes:
            inbox.put(_STOP)


class Pool:
    """The threads of the devices. They sleep between steps and end with ``close`` or with the process."""

    def __init__(self, devices: list[Device]) -> None:
        self._devices = devices
        self._commands: list[queue.SimpleQueue[Command | None]] = [queue.SimpleQueue() for _ in devices]
        self._done: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(
                target=_serve,
                args=(number, device, self._commands[number], self._done),
                name=f"emplace {device.name}",
                daemon=True,
            )
            for number, device in enumerate(devices)
        ]
        before = torch.get_num_threads()
        for thread in self._threads:
            thread.start()
        for _ in self._threads:
            self._done.get()  # Each has set its number of threads, which new threads of the process inherit.
        torch.set_num_threads(before)

    def run(self, step: Step, tasks: list[list[int]]) -> None:
        """Runs the tasks of each device; returns when all are done or one has failed."""
        for number, (commands, device, mine) in enumerate(zip(self._commands, self._devices, tasks)):
            commands.put(functools.partial(_run, step, number, device, mine))
        self._wait(len(self._threads), step)

    def call(self, function: Callable[[], Any], device: int = 0) -> Any:
        """Runs a function on a device's thread, to its end even if the caller is interrupted."""
        result: list[Any] = []
        failed: list[BaseException] = []

        def command() -> None:
            try:
                result.append(function())
            except BaseException as error:
                failed.append(error)

        self._commands[device].put(command)
        self._wait(1, None)
        if failed:
            raise failed[0]
        return result[0]

    def _wait(self, waiting: int, step: Step | None) -> None:
        interrupted: BaseException | None = None
        while waiting:
            try:
                self._done.get()
                waiting -= 1
            except BaseException as error:  # Ctrl-C: the threads are asked to stop, and waited for.
                interrupted = error
                if step is not None:
                    step.stop(-1, error)
        if interrupted is not None:
            raise interrupted

    def close(self) -> None:
        """Ends the threads."""
        for commands in self._commands:
            commands.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout=5)


def _serve(
    number: int, device: Device, commands: queue.SimpleQueue[Command | None], done: queue.SimpleQueue[int]
) -> None:
    """The main function of a device's thread."""
    device.enter()
    done.put(number)
    while (command := commands.get()) is not None:
        try:
            command()
        finally:
            del command
            done.put(number)


def _run(step: Step, here: int, device: Device, tasks: list[int]) -> None:
    """Runs one device's tasks of one step."""
    bound, waits, inbox, inboxes = step.bound, step.waits, step.inboxes[here], step.inboxes
    start, end, clock = step.times.start, step.times.end, time.perf_counter_ns
    copies: collections.deque[int] = collections.deque()
    ready: list[int] = []
    on_gpu = device.kind == "cuda"

    def arrive(number: int) -> None:
        if bound[number].task.kind is Kind.KERNEL:
            heapq.heappush(ready, number)
        else:
            copies.append(number)

    for number in tasks:
        if waits[number] == 0:
            arrive(number)
    left = len(tasks)
    number = -1
    try:
        while left:
            while not inbox.empty() or not (copies or ready):
                message = inbox.get()
                if message == _STOP:
                    return
                waits[message] -= 1
                if waits[message] == 0:
                    arrive(message)
            number = copies.popleft() if copies else heapq.heappop(ready)
            entry = bound[number]
            task = entry.task
            if on_gpu:
                device.before(task, step.devices)
            start[number] = clock()
            compute(step, entry, device)
            give_back(step, entry)
            end[number] = clock()
            if on_gpu:
                device.after(task)
            for after in task.next_here:
                waits[after] -= 1
                if waits[after] == 0:
                    arrive(after)
            for where, after in task.next_elsewhere:
                inboxes[where].put(after)
            left -= 1
    except BaseException as error:
        step.stop(number, error)


def compute(step: Step, entry: BoundTask, device: Device) -> None:
    """Runs one task, and makes the views of its results."""
    values = step.values
    if entry.call is not None:
        result = entry.call(values)
        if entry.single >= 0:
            values[entry.single] = result
        else:
            for at, slot in entry.outputs:
                values[slot] = result[at]
        del result
    elif entry.write >= 0:
        values[entry.write].copy_(values[entry.source])
    else:
        source = step.devices[entry.task.source]
        values[entry.outputs[0][1]] = device.copy(values[entry.source], entry.task, source)
    for call, outputs in entry.views:
        made = call(values)
        for at, slot in outputs:
            values[slot] = made if at is None else made[at]
        del made


def give_back(step: Step, entry: BoundTask) -> None:
    """Frees what a task was the last to read."""
    values = step.values
    for slot in entry.drops:
        values[slot] = None
    left = step.left
    for slot in entry.local:
        left[slot] -= 1
        if left[slot] == 0:
            values[slot] = None
    for slot in entry.tokens:
        # Several threads take tokens; taking the last one, or finding none, frees.
        tokens = step.tokens[slot]
        tokens.pop()
        if not tokens:
            values[slot] = None

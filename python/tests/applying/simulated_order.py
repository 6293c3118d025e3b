"""Runs the tasks of a placed step in the order in which the simulator starts and ends them."""

from __future__ import annotations

import heapq
import operator
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from live_storages import LiveStorages

from emplace.applying.devices import Device
from emplace.applying.plan import StepPlan
from emplace.applying.running import Step, compute, give_back
from emplace.applying.tasks import Kind, Task
from emplace.schedule import Schedule, Slice


class SimulatedOrder:
    """Stands for the pool of a step: one thread in place of those of the devices.

    Devices do not really run at one time here, but memory is as if they did: a task takes its memory when the
    simulated one starts, and gives back what it has read when that one ends. A task whose simulated start is
    too early for the runner, which has some more rules (random numbers are drawn in the order of the trace,
    nothing is overwritten that is still read), starts as soon as it may. What the simulator does not know
    (a new value that is copied to its parameter) takes no time.
    """

    def __init__(
        self, plan: StepPlan, devices: list[Device], schedule: Schedule, count: LiveStorages
    ) -> None:
        self._plan, self._devices, self._count = plan, devices, count
        self._times = _times(plan, schedule)

    def run(self, step: Step, tasks: list[list[int]]) -> None:
        """Runs a step."""
        modes = [self._count.mode(number) for number in range(len(self._devices))]
        #: (nanosecond, 1 for a start and 0 for an end, task)
        events = [(start, 1, number) for number, (start, _) in self._times.items()]
        events += [(0, 1, t.number) for t in self._plan.tasks if t.number not in self._times and not t.waits]
        heapq.heapify(events)
        waiting: set[int] = set()
        while events:
            now, starts, number = heapq.heappop(events)
            entry = step.bound[number]
            task = entry.task
            begin, end = self._times.get(number, (now, now))
            if starts and step.waits[number]:
                waiting.add(number)
            elif starts:
                with modes[task.device], torch.no_grad():
                    compute(step, entry, self._devices[task.device])
                heapq.heappush(events, (now + end - begin, 0, number))
            else:
                give_back(step, entry)
                for after in (*task.next_here, *(after for _, after in task.next_elsewhere)):
                    step.waits[after] -= 1
                    if not step.waits[after] and (after in waiting or after not in self._times):
                        heapq.heappush(events, (now, 1, after))
        assert not any(step.waits)

    def call(self, function: Callable[[], Any], device: int = 0) -> Any:
        """Runs a function as the thread of a device."""
        with self._count.mode(device):
            return function()

    def close(self) -> None:
        """There are no threads."""


def _times(plan: StepPlan, schedule: Schedule) -> dict[int, tuple[int, int]]:
    """Start and end of each task that the simulator knows, in nanoseconds.

    Copies of parts of one op to one device have the same name. Those of a size are alike for the memory: the
    first that starts is that of the first reader.
    """
    ops = {each.name: each for each in schedule.slices if each.op is not None}
    copies: dict[Any, list[Slice]] = defaultdict(list)
    for each in schedule.slices:
        if each.op is None:
            copies[each.name, each.device, each.to, each.bytes].append(each)
    found = {
        task.number: _nanoseconds(ops[task.op])
        for task in plan.tasks
        if task.kind is Kind.KERNEL and task.op in ops
    }

    def first_reader(task: Task) -> int:
        return min((found[n][0] for n in task.next_here if n in found), default=0)

    wanted = [task for task in plan.tasks if task.kind is Kind.COPY and not task.returns]
    for task in sorted(wanted, key=first_reader):
        names = _trace_name(plan, task), plan.devices[task.source], plan.devices[task.device], task.bytes
        found[task.number] = _nanoseconds(copies[names].pop(0))
    assert not any(each.bytes for left in copies.values() for each in left)  # Signals have no bytes.
    return found


def _trace_name(plan: StepPlan, task: Task) -> str:
    """What a copy is called in a trace: the op, or the view, whose result it is."""
    node = task.node
    if node.target is operator.getitem and node.name not in plan.lowered.step.op_of:
        node = node.all_input_nodes[0]
    return plan.lowered.op_of(node)


def _nanoseconds(each: Slice) -> tuple[int, int]:
    start = round(each.start_s * 1e9)
    return start, start + round(each.time_s * 1e9)

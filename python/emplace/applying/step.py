"""A placed training step as a function of a batch."""

from __future__ import annotations

import operator
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from emplace.applying.binding import Call, Values, bound_call
from emplace.applying.counterparts import counterparts
from emplace.applying.devices import CpuDevice, CudaDevice, Device, torch_device
from emplace.applying.in_place import in_place_form
from emplace.applying.lowering import LoweredStep
from emplace.applying.micro_batches import MicroBatches, micro_batched
from emplace.applying.moving import Moved
from emplace.applying.plan import StepPlan
from emplace.applying.planning import PlannedStep, planned_placement, planned_step
from emplace.applying.running import BoundTask, Pool, Step, Times
from emplace.applying.tasks import Kind, ViewCall
from emplace.errors import EmplaceError
from emplace.tracing import compat
from emplace.tracing.functional import DenseOp, FunctionalOp, summed

if TYPE_CHECKING:
    from emplace.tracing.step import TracedStep


class BoundPlan:
    """A plan on the devices of this machine: tensors and threads in place of slots and tasks."""

    def __init__(self, plan: StepPlan, devices: list[Device], pool: Pool | None = None) -> None:
        self.plan = plan
        self.devices = devices
        self.times = Times(len(plan.tasks))
        self._constants: dict[tuple[Node, torch.device], Any] = {}
        #: State of the generator before random ops that run again.
        self._random_states: dict[Node, torch.Tensor] = {}
        self._counterparts = counterparts(plan, devices)
        self.bound = [self._bind(number) for number in range(len(plan.tasks))]
        self._input_slots = self.input_slots()
        for task in plan.tasks:
            if task.kind is Kind.WRITE:
                self.bound[task.number].write = self._input_slots[task.source]
        self._tasks: list[list[int]] = [[] for _ in devices]
        for task in plan.tasks:
            self._tasks[task.device].append(task.number)
        self._state_views = [self._view(device, view) for device, view in plan.state_views]
        self._input_views = [self._view(device, view) for device, view in plan.input_views]
        self._own_constants = [
            (slot, self._constant(plan.lowered.values[value].node, devices[device].device))
            for value, slot, device in plan.initial
            if plan.lowered.values[value].node.op == "get_attr"
        ]
        self.pool = pool or Pool(devices)

    def input_slots(self) -> list[int]:
        """The slot of each input of the step."""
        at = {value: slot for value, slot, _ in self.plan.initial}
        return [at[value] for value in self.plan.lowered.placeholders]

    def run(self, arguments: list[torch.Tensor]) -> Values:
        """Runs one step; returns the values that the plan keeps. Raises OpFailed."""
        values: Values = [None] * self.plan.num_slots
        for slot, tensor in zip(self._input_slots, arguments):
            values[slot] = tensor
        for slot, constant in self._own_constants:
            values[slot] = constant
        for call, outputs in (*self._state_views, *self._input_views):
            made = call(values)
            for at, slot in outputs:
                values[slot] = made if at is None else made[at]
        step = Step(self.plan, self.bound, self.devices, values, self.times)
        self.times.begin_ns = time.perf_counter_ns()
        for device in self.devices:
            device.begin(len(self.plan.tasks))
        self.pool.run(step, self._tasks)
        if step.failed is None:
            self.finish()
        self.times.end_ns = time.perf_counter_ns()
        if step.failed is not None:
            raise self._failure(*step.failed)
        for device in self.devices:
            device.elapsed(self.times.start, self.times.end, self.plan.tasks)
        return values

    def finish(self) -> None:
        """Waits for the devices."""
        for device in self.devices:
            device.finish()

    def _failure(self, number: int, error: BaseException) -> BaseException:
        """The exception for an op that raised, with its name and scope."""
        if number < 0 or not isinstance(error, Exception):
            return error
        task = self.plan.tasks[number]
        scope = self.plan.lowered.scope(task.node)
        where = f"op '{task.op}'" + (f" in {scope}" if scope else "")
        what = str(error).strip().split("\n")[0] or type(error).__name__
        verb = "copying it failed" if task.kind is Kind.COPY else "failed"
        failure = OpFailed(
            f"{where} on {self.devices[task.device].name}",
            f"{verb}: {what}",
            "the model and the optimizer are as before this step"
            if not self.plan.early
            else "the step was left unfinished",
        )
        failure.op, failure.device, failure.error = task.op, self.devices[task.device].name, error
        failure.__cause__ = error
        return failure

    def _bind(self, number: int) -> BoundTask:
        task = self.plan.tasks[number]
        device = self.devices[task.device].device
        target: Any = task.node.target
        other: Any = self._counterparts.get(task.node)
        dense = not (self.devices[task.device].gaps or task.strided)
        if other is None and dense and type(target) is FunctionalOp:
            other = DenseOp(target)
        elif compat.OLD and target is torch.ops.aten.copy.default:
            other = compat.copied
        views = [self._view(task.device, view) for view in task.views]
        call = None
        if task.kind is Kind.KERNEL:
            call = bound_call(
                task.node,
                task.arguments,
                lambda node: self._constant(node, device),
                device,
                in_place_form(task.node) if task.in_place else other,
            )
            if summed(task.node):
                call = _without_room(call)
            if task.numbers:
                first = [
                    (slot, bound_call(node, task.arguments, lambda n: self._constant(n, device), device))
                    for node, slot in task.numbers
                ]
                op = call

                def call(values: Values) -> Any:
                    for slot, number in first:
                        values[slot] = number(values)
                    return op(values)

            call = self._random_call(task.node, call, device)

        return BoundTask(task, call, views, self.plan)

    def _random_call(self, node: Node, call: Call, device: torch.device) -> Call:
        """The call of an op that runs again, or is run again, with the random numbers of its first run."""
        repeats = self.plan.repeats
        if node in repeats.values():

            def first(values: Values) -> Any:
                self._random_states[node] = _random_state(device)
                return call(values)

            return first
        if node not in repeats:
            return call

        def again(values: Values) -> Any:
            now = _random_state(device)
            _set_random_state(device, self._random_states.pop(repeats[node]))
            try:
                return call(values)
            finally:
                _set_random_state(device, now)

        return again

    def _view(self, device: int, view: ViewCall) -> tuple[Any, list[tuple[int | None, int]]]:
        node, slot = view.source
        on = self.devices[device].device
        return bound_call(view.node, {node: slot}, lambda n: self._constant(n, on), on), view.outputs

    def _constant(self, node: Node, device: torch.device) -> Any:
        """A constant of the trace on a device."""
        known = self._constants.get((node, device))
        if known is None:
            value = self.plan.lowered.constants.get(node)
            if value is None:
                value = operator.attrgetter(str(node.target))(self.plan.lowered.step.module)
            known = value.to(device) if isinstance(value, torch.Tensor) else value
            self._constants[node, device] = known
        return known


def _random_state(device: torch.device) -> torch.Tensor:
    """The state of a device's default generator."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_random_state(device: torch.device, state: torch.Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


class OpFailed(EmplaceError):
    """An op of a step raised; ``__cause__`` is what it raised."""

    op: str = ""
    device: str = ""
    error: BaseException | None = None


class AppliedStep:
    """One training step as placed: ``loss = step(batch)``.

    Parameters, buffers and the optimizer's state are written when all ops are done, so a step that fails
    changes nothing; a ``lean`` one overwrites each as soon as nothing reads its old value, and leaves no gaps
    between elements, for the memory that the simulator counts. ``moved_bytes`` are the bytes that a step
    moves between devices, exactly those that the simulator counts; ``returned_bytes`` are new values that are
    made elsewhere than the state that they become (none where the placement keeps updates with their
    parameters, as ``place`` does).

    As a context manager, or with ``detach``, it gives back the user's tensors to the devices where they were.
    """

    def __init__(
        self,
        step: TracedStep,
        placement: Mapping[str, str],
        devices: Mapping[str, Any],
        *,
        threads: int | None = None,
        plan: Sequence[Mapping[str, Any]] = (),
        micro_batches: MicroBatches | None = None,
        lean: bool = False,
    ) -> None:
        where = {name: torch_device(name, wanted) for name, wanted in devices.items()}
        if not where:
            raise EmplaceError(
                "devices", "is empty", "name a torch device for each: devices={'gpu:0': 'cuda:0'}"
            )
        check_ops(LoweredStep(step), placement)
        planned = PlannedStep(step, {}, {})
        if plan:
            planned, placement = planned_step(step, plan), planned_placement(placement, plan)
        if micro_batches is not None:
            planned, placement = micro_batched(planned, placement, micro_batches)
            step = planned.step
        lowered = LoweredStep(planned.step)
        tasks = StepPlan(lowered, placement, list(where), planned=planned, early=lean)
        if lean and any(write.shares for write in tasks.writes):
            # A new value is the old one of another state, which must not be overwritten before it is read.
            tasks = StepPlan(lowered, placement, list(where), planned=planned)
        count = threads or torch.get_num_threads()
        made: list[Device] = [
            CpuDevice(name, count, gaps=not lean) if device.type == "cpu" else CudaDevice(name, device)
            for name, device in where.items()
        ]
        self._step = step
        self._plan = tasks
        self._shapes = [lowered.values[v].node.meta["tensors"][0] for v in lowered.placeholders]
        self._bound = BoundPlan(tasks, made)
        try:
            self._moved = Moved(step, [made[tasks.home(number)].device for number in range(len(step.inputs))])
        except BaseException:
            self._bound.pool.close()
            raise
        self._closed = weakref.finalize(self, self._bound.pool.close)

    def __call__(self, batch: Any) -> Any:
        """Runs one step; returns the loss, or what the model returns for an inference."""
        if not self._closed.alive:
            raise EmplaceError("step", "was detached from its model", "apply the placement again")
        step, plan = self._step, self._plan
        with torch.no_grad():
            arguments = step.arguments(batch)
            self._check(arguments)
            arguments = self._moved.placed(arguments)
            values = self._bound.run(arguments)
            kept: list[Any] = [None] * len(step.outputs)
            old = {compat.storage_address(argument) for argument in arguments}
            for number, slot in plan.returned:
                kept[number] = _apart(values[slot], old)
            state: dict[tuple[str, str], int] = {(i.kind, i.name): n for n, i in enumerate(step.inputs)}
            fresh = {
                write.input: (values[write.slot].clone() if write.shares else values[write.slot])
                for write in ([] if plan.early else plan.writes)
            }
            for number, output in enumerate(step.outputs):
                if output.kind not in ("loss", "result"):
                    at = state[output.kind, output.name]
                    kept[number] = fresh.get(at, arguments[at])
            del values
            # Runs on a thread of the step, so that Ctrl-C does not stop it half-way.
            result = self._bound.pool.call(lambda: step.store(kept))
            self._bound.finish()
            return result

    @property
    def moved_bytes(self) -> int:
        """Bytes that one step moves between devices."""
        return self._plan.moved_bytes

    @property
    def returned_bytes(self) -> int:
        """Bytes of new values that move to the device of the state that they become."""
        return self._plan.returned_bytes

    @property
    def crossings(self) -> list[tuple[str, str, str, int]]:
        """(op, from, to, bytes) of each copy between devices."""
        return self._plan.crossings

    def detach(self) -> None:
        """Ends the step: the model's tensors are again on the devices where they were before ``apply``."""
        if self._closed.alive:
            self._moved.restore()
            self._closed()

    def __enter__(self) -> AppliedStep:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def _check(self, arguments: list[torch.Tensor]) -> None:
        """Refuses state of other shapes than the traced ones."""
        for entry, argument, info in zip(self._step.inputs, arguments, self._shapes):
            if tuple(argument.shape) != tuple(info.shape) or argument.dtype != info.dtype:
                raise EmplaceError(
                    f"{entry.kind} '{entry.name}'",
                    f"is {_described(argument)}, was {_described(info)} when the step was traced",
                    "trace and place the step again",
                )


def check_ops(lowered: LoweredStep, placement: Mapping[str, str]) -> None:
    """Refuses the placement of another step."""
    known = {entry.op for entry in lowered.step.inputs} | set(lowered.step.op_of.values())
    for op in sorted(known ^ placement.keys()):
        what = f"has no device for the op '{op}' of this step"
        if op not in known:
            what = f"has an op '{op}' that this step has not"
        cure = "apply it to the step whose graph was placed, or place this step's graph"
        raise EmplaceError("placement", what, cure)


def _without_room(call: Call) -> Call:
    """The call with a result that has memory of its own size."""
    return lambda values: call(values).clone()


def _described(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of {list(tensor.shape)}"


def _apart(tensor: Any, storages: set[tuple[str, int]]) -> Any:
    """The tensor, or its copy if it shares memory with state that is about to change."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    return tensor.clone() if compat.storage_address(tensor) in storages else tensor

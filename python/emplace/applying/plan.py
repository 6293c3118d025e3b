"""The tasks of one step as placed: what each waits for, and when memory is given back.

A plan is made once for a placement and holds no tensor: the same plan runs on logical CPU devices and on
GPUs. Its rules are those of the program's executors (``executor/plan/task_plan.h``): a copy for each pair of
(buffer, device that reads it), a copy of state at the step's start, and memory that is given back when the
last reader on its device and the last copy from it are done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch.fx import Node

from emplace.applying.in_place import InPlace
from emplace.applying.lowering import Kernel, LoweredStep, target_name, unread_bytes
from emplace.applying.planning import PlannedStep
from emplace.applying.tasks import Held, Kind, Slot, Task, ViewCall, Write
from emplace.errors import EmplaceError
from emplace.tracing.functional import summed

#: Views whose arguments are strides.
_NAMES_STRIDES = frozenset({"as_strided", "_reshape_alias"})


class StepPlan:
    """The tasks of one placement. Immutable after construction.

    ``early`` writes new values of state as soon as the last reader of the old value is done, so that memory
    is as the simulator counts it; otherwise new values are kept until all ops are done, so that a failing op
    changes nothing. Plans of one step may share what they find ``in_place``. ``planned``: the step is one
    with a memory plan.
    """

    def __init__(
        self,
        lowered: LoweredStep,
        placement: Mapping[str, str],
        devices: Sequence[str],
        *,
        early: bool = False,
        in_place: InPlace | None = None,
        planned: PlannedStep | None = None,
    ) -> None:
        self.lowered = lowered
        self._triggers = planned.triggers if planned else {}
        #: Random node that runs again -> the node whose random numbers it draws once more.
        self.repeats = planned.repeats if planned else {}
        self.devices = list(devices)
        self.early = early and not self._exposed(lowered)
        self.tasks: list[Task] = []
        self.num_slots = 0
        #: Number of tasks that read a slot; slots that are kept to the end have one more.
        self.uses: list[int] = []
        #: Slots that tasks of several devices give back.
        self.shared: set[Slot] = set()
        #: (value, device) of each slot that is there from the start: state, inputs.
        self.initial: list[tuple[int, Slot, int]] = []
        #: Views of state and views of inputs, made before the first task.
        self.state_views: list[tuple[int, ViewCall]] = []
        self.input_views: list[tuple[int, ViewCall]] = []
        self.writes: list[Write] = []
        #: Slot of each output of the step that is returned; None for those that are written.
        self.returned: list[tuple[int, Slot]] = []
        self._where = {name: number for number, name in enumerate(self.devices)}
        self._placement = placement
        self._in_place = in_place or InPlace(lowered)
        self._slots: dict[tuple[int, int], Slot] = {}
        self._maker: dict[Slot, int | None] = {}
        self._devices_of: list[int] = []
        self._home: list[int] = []
        self._views: dict[tuple[Node, int], ViewCall] = {}
        self._waits: set[tuple[int, int]] = set()
        self._readers: dict[Slot, list[int]] = {}
        #: Inputs of the step whose new value is computed in their memory.
        self._updated: set[int] = set()
        self._build()

    # Questions of users.

    @property
    def moved_bytes(self) -> int:
        """Bytes of all copies as the simulator counts them: once for each device that reads."""
        return sum(t.bytes for t in self.tasks if t.kind is Kind.COPY and not t.returns)

    @property
    def returned_bytes(self) -> int:
        """Bytes of new values that are made on another device than the state that they become."""
        return sum(t.bytes for t in self.tasks if t.returns)

    @property
    def crossings(self) -> list[tuple[str, str, str, int]]:
        """(op, from, to, bytes) of each copy."""
        return [
            (t.op, self.devices[t.source], self.devices[t.device], t.bytes)
            for t in self.tasks
            if t.kind is Kind.COPY
        ]

    def resident_bytes(self) -> list[int]:
        """Bytes of state and inputs by device."""
        found = [0] * len(self.devices)
        for buffer in self.lowered.buffers:
            if buffer.resident and self.lowered.values[buffer.value].base is None:
                found[self._device(buffer.owner)] += buffer.bytes
        return found

    def held(self) -> list[Held]:
        """Memory that comes and goes during a step, by the simulator's rules."""
        low = self.lowered
        in_place = {low.kernels[k].node for chain in self._in_place.chains.values() for k in chain}
        in_place |= {k.node for k in low.kernels if k.update and k.node in self._in_place.accumulations}
        users: dict[int, list[int]] = {}
        for task in self.tasks:
            if task.kind is Kind.COPY and not low.buffers[self._buffer(task)].resident:
                users.setdefault(low.buffers[self._buffer(task)].whole, []).append(task.number)
            if task.kind is Kind.KERNEL:
                for value in self._kernel(task).reads:
                    buffer = low.buffers[low.values[value].buffer]
                    if self._device(buffer.owner) == task.device and not buffer.resident:
                        users.setdefault(buffer.whole, []).append(task.number)
        returned = {
            low.values[low.root(value)].buffer
            for output, value in zip(low.step.outputs, low.results)
            if value is not None and output.kind in ("loss", "result")
        }
        found = []
        for task in self.tasks:
            if task.kind is Kind.KERNEL and task.node not in in_place:
                for value in self._kernel(task).outputs:
                    number = low.values[value].buffer
                    until = () if number in returned else (task.number, *users.get(number, ()))
                    found.append(Held(task.device, low.buffers[number].bytes, task.number, until))
                if task.outputs and task.outputs[0][0] is not None or not task.outputs:
                    unread = unread_bytes(task.node, {at for at, _ in task.outputs})
                    found.append(Held(task.device, unread, task.number, (task.number,)))
                for info in summed(task.node):
                    found.append(Held(task.device, info.nbytes, task.number, (task.number,)))
            if task.kind is Kind.COPY and not task.returns:
                readers = [n for n in task.next_here if self.tasks[n].kind is Kind.KERNEL]
                found.append(Held(task.device, task.bytes, task.number, (task.number, *readers)))
        return found

    def home(self, input: int) -> int:
        """The device of an input of the step: of state, or of a tensor of the batch."""
        return self._home[self.lowered.placeholders[input]]

    # Construction.

    def _device(self, node: Node) -> int:
        op = self.lowered.op_of(node)
        name = self._placement.get(op)
        if name is None:
            raise EmplaceError(
                f"op '{op}'", "has no device in the placement", "place the graph of this step again"
            )
        if name not in self._where:
            raise EmplaceError(
                f"op '{op}'",
                f"is placed on '{name}', which is not among the devices",
                f"name a torch device for it: devices={{'{name}': 'cpu'}}",
            )
        return self._where[name]

    def _kernel(self, task: Task) -> Kernel:
        return self.lowered.kernels[self.lowered.kernel_of[task.node]]

    def _buffer(self, task: Task) -> int:
        return self.lowered.values[self.lowered.value_of[task.node]].buffer

    def _build(self) -> None:
        low = self.lowered
        home_of: dict[Node, int] = {}
        for value in low.values:
            owner = low.buffers[value.buffer].owner
            if owner not in home_of:
                home_of[owner] = self._home_of(owner, home_of)
            self._home.append(home_of[owner])
        for number in low.placeholders:
            self._initial(number)
        for kernel in low.kernels:
            if kernel.node not in home_of:  # No task reads its outputs.
                home_of[kernel.node] = self._home_of(kernel.node, home_of)
        self._build_kernels(home_of)
        self._build_outputs()
        for task in self.tasks:
            task.strided = any(target_name(view.node) in _NAMES_STRIDES for view in task.views)
            for slot in task.reads:
                self.uses[slot] += 1
                if self._devices_of[slot] != task.device:
                    self.shared.add(slot)

    @staticmethod
    def _exposed(lowered: LoweredStep) -> bool:
        """Whether an output of the step shares memory with state, and must be read before a write."""
        old = set(lowered.placeholders)
        shared = set().union(*(lowered.sharing(p) for p in old)) - old
        return any(
            value in shared or value in old and output.kind in ("loss", "result")
            for output, value in zip(lowered.step.outputs, lowered.results)
        )

    def _home_of(self, node: Node, home_of: dict[Node, int]) -> int:
        """The device of a node. One that is no op runs where its first argument is."""
        if node.op != "call_function" or node.name in self.lowered.step.op_of:
            return self._device(node)
        kernel = self.lowered.kernels[self.lowered.kernel_of[node]]
        for value in kernel.reads:
            return home_of[self.lowered.buffers[self.lowered.values[value].buffer].owner]
        return 0

    def _build_kernels(self, home_of: dict[Node, int]) -> None:
        """Kernels in trace order; copies and views as they are needed."""
        low, last_random = self.lowered, None
        task_of: dict[Node, int] = {}
        in_place: set[Node] = set()
        for target, chain in (self._in_place.chains if self.early else {}).items():
            if all(home_of[low.kernels[k].node] == self.home(target) for k in chain):
                self._updated.add(target)
                in_place.update(low.kernels[k].node for k in chain)
        for kernel in low.kernels:
            device = home_of[kernel.node]
            slots = {value: self._provide(value, device) for value in kernel.reads}
            task = self._task(Kind.KERNEL, device, kernel.node, kernel.op)
            task.random = kernel.random
            for computed in (*kernel.numbers, kernel.node):
                for node in computed.all_input_nodes:
                    if node in low.value_of:
                        task.arguments[node] = slots[low.value_of[node]]
            for number in kernel.numbers:
                task.arguments[number] = self._new_slot(-1 - len(self._slots), device, None)
                task.numbers.append((number, task.arguments[number]))
            for slot in slots.values():
                self._read(task, slot)
            if kernel.node in self._in_place.accumulations:
                task.in_place = (
                    self._home[low.value_of[next(n for n in kernel.node.all_input_nodes)]] == device
                )
            if kernel.node in in_place:
                task.in_place = True
                old = next(n for n in kernel.node.all_input_nodes)  # The first argument.
                self._wait_for_readers(low.value_of[old], device, task)
            task_of[kernel.node] = task.number
            if kernel.node in self._triggers:
                self._wait(task_of[self._triggers[kernel.node]], task.number)
            if kernel.random:
                if last_random is not None:
                    self._wait(last_random, task.number)
                last_random = task.number
            for value in kernel.outputs:
                task.outputs.append((low.values[value].output, self._new_slot(value, device, task.number)))

    def _build_outputs(self) -> None:
        """Outputs that are returned, and the new values of state."""
        low = self.lowered
        state: dict[tuple[str, str], int] = {
            (i.kind, i.name): number for number, i in enumerate(low.step.inputs) if i.kind != "input"
        }
        shared: set[int] = set().union(*(low.sharing(p) for p in low.placeholders))
        fresh: list[tuple[int, int]] = []
        for number, (output, value) in enumerate(zip(low.step.outputs, low.results)):
            if output.kind in ("loss", "result"):
                if value is not None:
                    slot = self._provide(value, self._home[value])
                    self.uses[slot] += 1
                    self.returned.append((number, slot))
                continue
            target = state[output.kind, output.name]
            if value is None or value == low.placeholders[target]:
                continue  # The input keeps its value.
            fresh.append((target, value))
        for target, value in fresh:
            if target in self._updated:
                continue
            device = self.home(target)
            before = len(self.tasks)
            slot = self._provide(value, device)
            for task in self.tasks[before:]:
                task.returns = True
            self.writes.append(Write(target, slot, device, value in shared))
        for write in self.writes:
            if self.early:
                self._write_early(write)
            else:
                self.uses[write.slot] += 1

    def _wait_for_readers(self, value: int, device: int, task: Task) -> None:
        """Makes a task wait for all tasks of its device that read the memory of a value."""
        for other in self.lowered.sharing(value):
            for reader in self._readers.get(self._slots.get((other, device), -1), ()):
                if reader != task.number:
                    self._wait(reader, task.number)

    def _write_early(self, write: Write) -> None:
        """A write that waits for all readers of the old value."""
        low = self.lowered
        old = low.placeholders[write.input]
        task = self._task(Kind.WRITE, write.device, low.values[old].node, low.op_of(low.values[old].node))
        task.source = write.input
        task.arguments[low.values[old].node] = write.slot
        self._read(task, write.slot)
        self._wait_for_readers(old, write.device, task)

    # Slots, views and copies.

    def _new_slot(self, value: int, device: int, maker: int | None) -> Slot:
        slot = self.num_slots
        self.num_slots += 1
        self.uses.append(0)
        self._slots[value, device] = slot
        self._maker[slot] = maker
        self._devices_of.append(device)
        return slot

    def _initial(self, value: int) -> Slot:
        device = self._home[value]
        slot = self._new_slot(value, device, None)
        self.uses[slot] += 1  # Never given back.
        self.initial.append((value, slot, device))
        return slot

    def _provide(self, value: int, device: int) -> Slot:
        """The slot of a value on a device, with what makes it: a copy, or a view of what is there."""
        known = self._slots.get((value, device))
        if known is not None:
            return known
        low = self.lowered
        v = low.values[value]
        buffer = low.buffers[v.buffer]
        home = self._home[value]
        if device != home and buffer.value == value:
            source = self._provide(value, home)
            task = self._task(Kind.COPY, device, v.node, low.op_of(buffer.owner))
            task.source, task.bytes = home, buffer.bytes
            task.arguments[v.node] = source
            self._read(task, source)
            slot = self._new_slot(value, device, task.number)
            task.outputs.append((None, slot))
            return slot
        if v.base is None:
            return self._initial(value)  # The value is a constant that is an op.
        under = self._provide(v.base, device)
        call = v.node if v.output is None else next(n for n in v.node.all_input_nodes)
        maker = self._maker[under]
        slot = self._new_slot(value, device, maker)
        view = self._views.get((call, device))
        if view is not None:
            view.outputs.append((v.output, slot))
        else:
            argument = next(n for n in call.all_input_nodes if n in low.value_of)
            view = self._views[call, device] = ViewCall(call, (argument, under), [(v.output, slot)])
            if maker is not None:
                self.tasks[maker].views.append(view)
            else:
                root = low.values[low.root(value)].node
                number = low.placeholders.index(low.value_of[root]) if root.op == "placeholder" else None
                fed = number is not None and low.step.inputs[number].kind == "input"
                (self.input_views if fed else self.state_views).append((device, view))
        if maker is None:
            self.uses[slot] += 1  # A view is kept as long as the value that it views.
        return slot

    def _task(self, kind: Kind, device: int, node: Node, op: str) -> Task:
        task = Task(len(self.tasks), kind, device, node, op)
        self.tasks.append(task)
        return task

    def _read(self, task: Task, slot: Slot) -> None:
        task.reads.append(slot)
        self._readers.setdefault(slot, []).append(task.number)
        maker = self._maker[slot]
        if maker is not None:
            self._wait(maker, task.number)

    def _wait(self, before: int, after: int) -> None:
        if (before, after) in self._waits:
            return
        self._waits.add((before, after))
        first, second = self.tasks[before], self.tasks[after]
        second.waits += 1
        if first.device == second.device:
            first.next_here.append(after)
        else:
            first.next_elsewhere.append((second.device, after))
        if first.device != second.device or first.kind is Kind.COPY:
            second.after.append(before)

"""What a plan is made of: tasks, views, writes, and memory that is held."""

from __future__ import annotations

import dataclasses
import enum

from torch.fx import Node

#: A value on a device: an index into the table of a running step.
Slot = int


class Kind(enum.Enum):
    """What a task does."""

    KERNEL = "kernel"
    COPY = "copy"
    #: A new value of a parameter, a buffer or optimizer state is written over the old one.
    WRITE = "write"


@dataclasses.dataclass(slots=True)
class ViewCall:
    """A view that is made as soon as what it views is there. ``outputs`` are (index or None, slot)."""

    node: Node
    source: tuple[Node, Slot]
    outputs: list[tuple[int | None, Slot]]


@dataclasses.dataclass(slots=True)
class Task:
    """One entry of the plan; see ``Kind``."""

    number: int
    kind: Kind
    device: int
    node: Node
    op: str
    #: Kernel: slots of its arguments. Copy and write: {node: slot that is read}.
    arguments: dict[Node, Slot] = dataclasses.field(default_factory=dict)
    outputs: list[tuple[int | None, Slot]] = dataclasses.field(default_factory=list)
    views: list[ViewCall] = dataclasses.field(default_factory=list)
    #: Kernel: Python numbers that are computed before it, each with its slot.
    numbers: list[tuple[Node, Slot]] = dataclasses.field(default_factory=list)
    #: Number of tasks that end before this one starts.
    waits: int = 0
    next_here: list[int] = dataclasses.field(default_factory=list)
    next_elsewhere: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    #: Copies among the tasks that it waits for, and kernels elsewhere: what a CUDA stream waits for.
    after: list[int] = dataclasses.field(default_factory=list)
    #: Slots that are given back when all their readers, of which this is one, are done.
    reads: list[Slot] = dataclasses.field(default_factory=list)
    #: Copy: device that it comes from. Write: the input of the step that it overwrites.
    source: int = -1
    bytes: int = 0
    #: Copy of a new value to the device of its parameter: the simulator knows no such copy.
    returns: bool = False
    random: bool = False
    #: A view of its result names strides: they must be those of the trace.
    strided: bool = False
    #: Kernel: writes its result over its first argument: the state that it updates, or a gradient that it
    #: adds to.
    in_place: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Write:
    """The new value of an input of the step: ``slot`` is on the device of the input."""

    input: int
    slot: Slot
    device: int
    #: The new value is another state, or part of one: it must be copied before anything is overwritten.
    shares: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """Memory on a device from the start of one task to the end of the last of others, or of the step if there
    are none.
    """

    device: int
    bytes: int
    taker: int
    users: tuple[int, ...]

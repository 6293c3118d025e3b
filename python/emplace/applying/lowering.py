"""What a traced step is made of: kernels, and the data that they read and write.

The rules are those of the simulator (``docs/reference/measurement.md``, ``graph/lowering.h``), so that both
move and keep the same tensors: a view as large as its base is its base; a smaller view is a part, a
piece of data of its own that takes no memory where its base lies; whatever is not an op costs nothing. A
lowering does not depend on the placement.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from typing import TYPE_CHECKING, Any

from torch.fx import Node
from torch.fx.node import map_arg

from emplace.tracing.functional import SILENT_VIEWS

if TYPE_CHECKING:
    from emplace.tracing.step import TracedStep

#: Operators without an op whose result is their argument.
_SAME = frozenset({"alias", "detach", "lift_fresh", "lift"})


@dataclasses.dataclass(slots=True)
class Value:
    """One tensor of the step: an output of a kernel, a state or an input, or a view of another value."""

    number: int
    node: Node
    bytes: int
    buffer: int
    #: The value that this one is a view of; None for what a kernel writes, for state and for inputs.
    base: int | None = None
    #: Which output of the kernel; None if the kernel has one output.
    output: int | None = None


@dataclasses.dataclass(slots=True)
class Buffer:
    """A piece of data that can be copied to another device: a whole value, or a part of one."""

    owner: Node
    value: int
    bytes: int
    #: The number of the whole buffer that this is a part of; its own number for a whole one.
    whole: int
    resident: bool


@dataclasses.dataclass(slots=True)
class Kernel:
    """A node that computes. ``reads`` are the values of its arguments, each once."""

    node: Node
    op: str
    reads: list[int]
    outputs: list[int]
    random: bool
    update: bool = False
    #: Nodes that compute Python numbers for its arguments, in order; they are computed wherever the kernel
    #: runs.
    numbers: list[Node] = dataclasses.field(default_factory=list)


def target_name(node: Node) -> str:
    """The name of a node's ATen operator without its namespace and overload: "addmm"."""
    schema = getattr(node.target, "_schema", None)
    return (
        str(schema.name).split("::")[-1]
        if schema is not None
        else getattr(node.target, "__name__", str(node.target))
    )


def is_view(node: Node) -> bool:
    """Whether the node's operator moves no data."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return False
    aliases = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    return aliases or target_name(node) in SILENT_VIEWS


def bytes_of(node: Node) -> int:
    """Size of the node's tensor, or of the element that a Python number was."""
    if node.meta.get("scalar"):
        described = next(node.meta["tensors"][0] for node in node.all_input_nodes)
        return int(described.nbytes) // max(1, int(described.numel))
    described = node.meta.get("tensors") or (None,)
    return int(described[0].nbytes) if described[0] is not None else 0


def unread_bytes(node: Node, read: set[int | None]) -> int:
    """Size of the outputs of a kernel with several that no node takes."""
    described = enumerate(node.meta.get("tensors") or ())
    return sum(info.nbytes for at, info in described if at not in read and info is not None)


class LoweredStep:
    """The kernels, values and buffers of a traced step. Immutable."""

    def __init__(self, step: TracedStep) -> None:
        self.step = step
        self.values: list[Value] = []
        self.buffers: list[Buffer] = []
        self.kernels: list[Kernel] = []
        #: Value of each node that has one. Nodes with several outputs have none; their getitems do.
        self.value_of: dict[Node, int] = {}
        #: Constants of the trace that are not ops: they are wherever they are read.
        self.constants: dict[Node, Any] = {}
        #: Values of the step's inputs, in the order of ``step.inputs``.
        self.placeholders: list[int] = []
        #: Values of the step's outputs, in the order of ``step.outputs``; None for what is not a tensor of
        #: the step.
        self.results: list[int | None] = []
        #: Kernel that computes each node that computes.
        self.kernel_of: dict[Node, int] = {}
        self._outputs_of: dict[Node, dict[int, int]] = {}
        self._op_of_input: dict[Node, str] = {}
        #: Values of tensors, and nodes in order, that a Python number is computed from.
        self._numbers: dict[Node, tuple[list[int], list[Node]]] = {}
        for node in step.module.graph.nodes:
            self._take(node)

    # Reading the trace.

    def _take(self, node: Node) -> None:
        if node.op == "placeholder":
            self._op_of_input[node] = self.step.inputs[len(self.placeholders)].op
            self.placeholders.append(self._whole(node, resident=True))
        elif node.op == "get_attr":
            if node.name in self.step.op_of:
                self._whole(node, resident=True)
            else:
                self.constants[node] = operator.attrgetter(str(node.target))(self.step.module)
        elif node.op == "call_function":
            self._call(node)
        elif node.op == "output":
            flat = node.args[0] if isinstance(node.args[0], (list, tuple)) else (node.args[0],)
            self.results = [self.value_of.get(n) if isinstance(n, Node) else None for n in flat]

    def _call(self, node: Node) -> None:
        arguments = node.all_input_nodes
        if node.target is operator.getitem:
            source, at = node.args
            if isinstance(source, Node) and isinstance(at, int) and source in self._outputs_of:
                self._item(node, source, at)
                return
        if node.meta.get("scalar") and node.name not in self.step.op_of:
            self._numbers[node] = self._closure(arguments, [node])
            return
        if node.name not in self.step.op_of or (is_view(node) and not node.meta.get("scalar")):
            base = next((a for a in arguments if a in self.value_of or a in self._outputs_of), None)
            if base is not None:
                self._view(node, base)
                return
            if node.name not in self.step.op_of and all(a in self.constants for a in arguments):
                # Made of constants alone: computed once, here.
                compute: Any = node.target
                args, kwargs = map_arg((node.args, node.kwargs), self.constants.__getitem__)
                self.constants[node] = compute(*args, **kwargs)
                return
        reads, numbers = self._closure(arguments, [])
        kernel = Kernel(
            node,
            self.step.op_of.get(node.name, node.name),
            reads,
            [],
            node.name in self.step.random_nodes,
            node.meta.get("phase") == "update",
            numbers,
        )
        self.kernel_of[node] = len(self.kernels)
        self.kernels.append(kernel)
        if _has_several_outputs(node):
            self._outputs_of[node] = {}
        else:
            kernel.outputs.append(self._whole(node, resident=False))

    def _closure(self, arguments: list[Node], last: list[Node]) -> tuple[list[int], list[Node]]:
        """The tensors and the Python numbers that arguments are made of, each once."""
        values: dict[int, None] = {}
        numbers: dict[Node, None] = {}
        for argument in arguments:
            if argument in self.value_of:
                values[self.value_of[argument]] = None
            elif argument in self._numbers:
                values.update(dict.fromkeys(self._numbers[argument][0]))
                numbers.update(dict.fromkeys(self._numbers[argument][1]))
        return list(values), [*numbers, *last]

    def _item(self, node: Node, source: Node, at: int) -> None:
        """An output of a kernel with several, or of a view with several (split)."""
        known = self._outputs_of[source]
        if at in known:
            self.value_of[node] = known[at]
            return
        if source in self.kernel_of:
            known[at] = self._whole(node, resident=False, owner=source, output=at)
            self.kernels[self.kernel_of[source]].outputs.append(known[at])
        else:
            base = self.value_of[source.all_input_nodes[0]]
            known[at] = self._part(node, base, at)
        self.value_of[node] = known[at]

    def _view(self, node: Node, base: Node) -> None:
        if _has_several_outputs(node):
            self._outputs_of[node] = {}
        elif node.name not in self.step.op_of and target_name(node) in _SAME:
            self.value_of[node] = self.value_of[base]
        else:
            self._part(node, self.value_of[base], None)

    def _whole(
        self, node: Node, *, resident: bool, owner: Node | None = None, output: int | None = None
    ) -> int:
        number, size = len(self.values), bytes_of(node)
        self.values.append(Value(number, node, size, len(self.buffers), None, output))
        self.buffers.append(Buffer(owner or node, number, size, len(self.buffers), resident))
        self.value_of[node] = number
        return number

    def _part(self, node: Node, base: int, output: int | None) -> int:
        """A view: the buffer of its base, or a part if it is smaller."""
        number, size = len(self.values), bytes_of(node)
        under = self.values[base].buffer
        of = self.buffers[under]
        buffer = under
        if size < of.bytes:
            buffer = len(self.buffers)
            self.buffers.append(Buffer(of.owner, number, size, of.whole, of.resident))
        self.values.append(Value(number, node, size, buffer, base, output))
        self.value_of[node] = number
        return number

    # Questions.

    def op_of(self, node: Node) -> str:
        """The op of the graph that a kernel or a state is."""
        return self._op_of_input.get(node) or self.step.op_of.get(node.name, node.name)

    @functools.cached_property
    def _sharers(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for value in self.values:
            if value.base is not None:
                found.setdefault(value.base, []).append(value.number)
        return found

    def sharing(self, value: int) -> set[int]:
        """The values that may share memory with a value: its views."""
        found, todo = {value}, [value]
        while todo:
            fresh = [v for v in self._sharers.get(todo.pop(), ()) if v not in found]
            found.update(fresh)
            todo += fresh
        return found

    def root(self, value: int) -> int:
        """The value that a chain of views starts at."""
        while (base := self.values[value].base) is not None:
            value = base
        return value

    def scope(self, node: Node) -> str:
        """Where the node is in the model, for messages; empty if the trace lacks it."""
        return str(node.meta.get("scope") or node.meta.get("group") or "")


def _has_several_outputs(node: Node) -> bool:
    if any(user.target is operator.getitem for user in node.users):
        return True
    schema = getattr(node.target, "_schema", None)
    if schema is None or node.users:
        return False
    returns = schema.returns
    return len(returns) != 1 or str(returns[0].type).startswith("List[")

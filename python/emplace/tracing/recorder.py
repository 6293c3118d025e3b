"""Records the ATen ops that a program issues on fake tensors as a functional fx graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from operator import getitem
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.fx import Graph, Node
from torch.utils._python_dispatch import TorchDispatchMode

from emplace.tracing import compat, scalars
from emplace.tracing.calls import Call, ignored
from emplace.tracing.functional import (
    OpKind,
    in_place_on_copies,
    kind_of,
    own_results,
    saving,
    with_defaults,
)
from emplace.tracing.randomness import Draws
from emplace.tracing.refusal import depends_on_data, refuse
from emplace.tracing.scopes import Scopes
from emplace.tracing.values import Cell, TensorInfo, Value, ViewStep

_READS_DATA = {
    "aten::_local_scalar_dense",
    "aten::equal",
    "aten::allclose",
    "aten::is_nonzero",
    "aten::nonzero",
    "aten::masked_select",
    "aten::unique_dim",
    "aten::_unique2",
    "aten::unique_consecutive",
    "aten::repeat_interleave.Tensor",
    "aten::_pack_padded_sequence",
}
_TENSOR_RULES = {"aten::set_", "aten::resize_", "aten::resize_as_"}


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode: each op runs on fake tensors, and leaves a node in ``graph``."""

    def __init__(self, mode: FakeTensorMode, scopes: Scopes) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.mode = mode
        self.scopes = scopes
        self.graph = Graph()
        self.draws = Draws()
        self.random_nodes: set[str] = set()
        self.constants: dict[str, torch.Tensor] = {}
        self.state_tensors: dict[int, torch.Tensor] = {}
        self.in_flight: list[Any] = []
        self.plain_numbers = False
        self.owners: dict[str, str] = {}
        self._constant_fakes: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._counts: dict[str, int] = {}
        self._last_placeholder: Node | None = None
        #: Nodes that the call made that runs now, and the first nodes of what it writes to.
        self._made: list[str] = []
        self._written: list[str] = []

    # -- nodes ----------------------------------------------------------------------------------------------

    def name(self, base: str) -> str:
        """A name that no other node has."""
        self._counts[base] = self._counts.get(base, 0) + 1
        return f"{base}_{self._counts[base]}"

    def emit(
        self, target: Any, args: Sequence[Any], kwargs: dict[str, Any], tensors: tuple[TensorInfo | None, ...]
    ) -> Node:
        """A node that calls ``target``."""
        base = target._schema.name.split("::")[1] if hasattr(target, "_schema") else target.__name__
        node = self.graph.create_node(
            "call_function", target, tuple(args), dict(kwargs), self.name(base.strip("_"))
        )
        self._made.append(node.name)
        owner = self._owner(args)
        node.meta.update(scope=self.scopes.now(), phase=self.scopes.phase, tensors=tensors)
        if owner is not None:
            self.owners[node.name] = owner
            if self.scopes.phase == "update":
                node.meta["parameter"] = owner
        return node

    def _owner(self, args: Sequence[Any]) -> str | None:
        """The parameter whose state the arguments are, of an op of the update."""
        if self.scopes.phase != "update":
            return None
        for arg in args:
            for each in arg if isinstance(arg, (list, tuple)) else (arg,):
                if isinstance(each, Node) and each.name in self.owners:
                    return self.owners[each.name]
        return None

    def placeholder(self, name: str, fake: torch.Tensor, owner: str | None = None) -> Node:
        """An argument of the step, whose value ``fake`` has from now on."""
        base = "".join(c if c.isalnum() else "_" for c in name)
        last = self._last_placeholder
        with self.graph.inserting_after(last) if last is not None else nullcontext():
            node = self.graph.create_node("placeholder", self.name("in_" + base))
        self._last_placeholder = node
        info = TensorInfo.of(fake)
        node.meta.update(tensors=(info,), scope="", phase="forward")
        if owner is not None:
            self.owners[node.name] = owner
        bind(fake, Value(Cell(node, info), (), node))
        return node

    def number(self, function: Any, args: tuple[Any, ...]) -> Node:
        """A node that computes a Python number."""
        node = self.emit(function, args, {}, ())
        node.meta["scalar"] = True
        return node

    def item(self, tensor: torch.Tensor, value: float | int) -> Any:
        """The number in a tensor, to be traced; ``value`` stands for it."""
        node = self.emit(torch.ops.aten._local_scalar_dense.default, (self.node_of(tensor),), {}, ())
        node.meta["scalar"] = True
        return scalars.traced(value, node, self.number)

    def node_of(self, tensor: torch.Tensor) -> Node:
        """The node with a tensor's value now."""
        return value_of(self.faked(tensor)).read(self.emit)

    # -- tensors --------------------------------------------------------------------------------------------

    def faked(self, tensor: torch.Tensor) -> torch.Tensor:
        """The fake tensor that stands for a tensor; one without an owner is a constant."""
        if hasattr(tensor, "_emplace"):
            return tensor
        known = self._constant_fakes.get(id(tensor))
        if known is None:
            if isinstance(tensor, FakeTensor):
                raise refuse(
                    "uses a tensor without data that is neither parameter, buffer nor input of this step",
                    "register it as a buffer of the model",
                )
            if id(tensor) in self.state_tensors:
                raise refuse(
                    "uses a parameter or buffer of the model that is hidden from its modules",
                    "reach it as an attribute of the module that owns it",
                )
            known = (tensor, compat.fake_like(self.mode, tensor))
            self._constant_fakes[id(tensor)] = known
            self._constant(tensor, known[1])
        return known[1]

    def _constant(self, tensor: torch.Tensor, fake: torch.Tensor) -> None:
        name = self.name("constant")
        self.constants[name] = tensor
        node = self.graph.create_node("get_attr", name, name=name)
        info = TensorInfo.of(fake)
        node.meta.update(tensors=(info,), scope=self.scopes.now(), phase=self.scopes.phase)
        bind(fake, Value(Cell(node, info, constant=True), (), node))

    # -- dispatch -------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._made, self._written = [], []
        result = self._dispatch(func, args, kwargs or {})
        if self.scopes.phase == "forward" and isinstance(func, OpOverload) and not ignored(func):
            kind = kind_of(func)
            facts = kind.random, kind.view or kind.inplace_view
            self.scopes.log.calls.append(Call(str(func), tuple(self._made), tuple(self._written), *facts))
        return result

    def _dispatch(self, func: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(func, OpOverload) or func.namespace in ("prim", "profiler"):
            return func(*args, **kwargs)
        name = func._schema.name
        if name in ("aten::lift_fresh", "aten::lift_fresh_copy", "aten::lift") and not isinstance(
            args[0], FakeTensor
        ):
            fake = func(*args, **kwargs)
            self._constant(args[0], fake)
            value_of(fake).cell.constant = False  # A new literal: the program may write to it.
            return fake
        if name in _READS_DATA:
            if name == "aten::_local_scalar_dense" and getattr(args[0], "constant", None) is not None:
                return func(*args, **kwargs)
            raise depends_on_data(name)
        if name in _TENSOR_RULES:
            return self._resize(func, args, kwargs)
        args, kwargs = self._map(args, self.faked), {k: self._map(v, self.faked) for k, v in kwargs.items()}
        kind = kind_of(func)
        if not func._schema.returns and not kind.written:
            return func(*args, **kwargs)
        if not kind.written or (name.endswith("native_batch_norm") and not _training(args)):
            return self._pure(func, kind, args, kwargs)
        return self._write(func, kind, args, kwargs)

    def _map(self, value: Any, function: Callable[[torch.Tensor], Any]) -> Any:
        if isinstance(value, torch.Tensor):
            return function(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self._map(each, function) for each in value)
        return value

    def _arguments(self, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
        """Arguments of the node: nodes for tensors and for traced numbers."""
        nodes = [self._argument(arg) for arg in args]
        return nodes, {key: self._argument(value) for key, value in kwargs.items()}

    def _argument(self, arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            return self.node_of(arg)
        if isinstance(arg, (list, tuple)):
            return [self._argument(each) for each in arg]
        if self.in_flight and type(arg) in (float, int):
            for i, number in enumerate(self.in_flight):
                if type(scalars.plain(number[0])) in (float, int) and scalars.plain(number[0]) == arg:
                    self.in_flight[i] = (number[0], True)
                    return number[0].node
        if isinstance(arg, torch.Generator):
            raise refuse("draws from a generator of its own", "draw from PyTorch's default generator")
        return arg

    def _run(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        """The op on fake tensors."""
        rule = compat.shape_rule(func)
        try:
            return rule(*args, **kwargs) if rule is not None else func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            raise depends_on_data(str(func._schema.name), self.scopes.phase == "backward") from None

    def _pure(self, func: OpOverload, kind: OpKind, args: Any, kwargs: Any) -> Any:
        nodes, named = self._arguments(args, kwargs)
        result = self._run(func, args, kwargs)
        several = isinstance(result, (list, tuple))
        results = result if several else (result,)
        tensors = tuple(TensorInfo.of(r) if isinstance(r, torch.Tensor) else None for r in results)
        if not any(tensors):
            return result
        target = saving(func) if torch.is_grad_enabled() else func
        node = self._node(target, kind, nodes, named, tensors)
        for i, each in enumerate(results):
            if isinstance(each, torch.Tensor) and not any(each is arg for arg in args):
                index = i if several else None
                own = self.emit(getitem, (node, i), {}, (tensors[i],)) if several else node
                info = TensorInfo.of(each)
                value = Value(Cell(own, info), (), own)
                if kind.view and args and isinstance(args[0], torch.Tensor):
                    base = value_of(args[0])
                    step = ViewStep(func, tuple(args[1:]), dict(kwargs), index, TensorInfo.of(args[0]), info)
                    value = Value(base.cell, (*base.path, step), own)
                bind(each, value)
        return result

    def _node(self, func: Any, kind: OpKind, nodes: Any, named: Any, tensors: Any) -> Node:
        """A new node, or that of an earlier draw if the generator was put back."""
        if not kind.random:
            return self.emit(func, nodes, named, tensors)
        key = (str(func), tensors, tuple(a for a in nodes if isinstance(a, (int, float, bool))))
        node = self.draws.again(key)
        if node is None:
            node = self.emit(func, nodes, named, tensors)
            self.draws.add(key, node)
            self.random_nodes.add(node.name)
        return node

    def _write(self, func: OpOverload, kind: OpKind, args: Any, kwargs: Any) -> Any:
        nodes, named = self._arguments(args, kwargs)
        positions = {argument.name: i for i, argument in enumerate(func._schema.arguments)}
        written: list[Any] = []
        for name in kind.written:
            target = args[positions[name]] if positions[name] < len(args) else kwargs.get(name)
            written.extend(target if isinstance(target, (list, tuple)) else [target])
        for target in written:
            if target is None:
                continue
            self._written.append(value_of(target).cell.history[0].name)
            if value_of(target).cell.constant:
                raise refuse(
                    "writes to a tensor that is neither a parameter nor a buffer of the model",
                    "register it with register_buffer, so that the step can hand back its new value",
                )
        if kind.inplace_view:
            return self._write_view(func, kind, args, kwargs, nodes, named)
        functional = kind.functional
        # A draw fills memory in order, and its functional form has the elements of a tensor in order.
        if isinstance(functional, OpOverload) and not (kind.random and not args[0].is_contiguous()):
            full = with_defaults(func, functional, list(args))
            layout = self._layout(functional, full, kwargs)
            if layout is None or layout.stride == written[0].stride():  # It returns the new value.
                result, info = self._run(func, args, kwargs), TensorInfo.of(args[0])
                full = with_defaults(func, functional, nodes)
                node = self._node(functional, kind, full, named, (layout or info,))
                if layout is not None and layout.dtype != info.dtype:
                    node = self.emit(torch.ops.aten._to_copy.default, (node,), {"dtype": info.dtype}, (info,))
                value_of(args[0]).write(self.emit, node)
                return result
        if isinstance(functional, OpOverload):
            functional = in_place_on_copies(func, kind.written)
        result = self._run(func, args, kwargs)
        own = own_results(func, result)
        outputs = [*written, *own]
        tensors = tuple(TensorInfo.of(r) if isinstance(r, torch.Tensor) else None for r in outputs)
        node = self._node(functional, kind, nodes, named, tensors)
        for i, each in enumerate(outputs):
            if not isinstance(each, torch.Tensor):
                continue
            value = self.emit(getitem, (node, i), {}, (tensors[i],)) if len(outputs) > 1 else node
            if i < len(written):
                value_of(each).write(self.emit, value)
            else:
                bind(each, Value(Cell(value, TensorInfo.of(each)), (), value))
        return result

    def _write_view(
        self, func: OpOverload, kind: OpKind, args: Any, kwargs: Any, nodes: Any, named: Any
    ) -> Any:
        """An op that turns a tensor into a view of itself (``t_``, ``unsqueeze_``)."""
        before = TensorInfo.of(args[0])
        if not isinstance(kind.functional, OpOverload):
            raise refuse(f"changes the shape of a tensor in place ({func})", "make a view of it")
        result = self._run(func, args, kwargs)
        after = TensorInfo.of(args[0])
        base = value_of(args[0])
        node = self.emit(kind.functional, nodes, named, (after,))
        step = ViewStep(kind.functional, tuple(args[1:]), dict(kwargs), None, before, after)
        bind(args[0], Value(base.cell, (*base.path, step), node))
        return result

    def _resize(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        """A tensor of another size in the place of one; its elements are undefined."""
        value = value_of(args[0]) if isinstance(args[0], FakeTensor) else None
        if value is None or value.path or value.cell.node.op != "call_function" or "resize" not in str(func):
            raise refuse(f"changes the size or storage of a tensor in place ({func})", "make a new tensor")
        before = tuple(args[0].shape)
        result = func(*args, **kwargs)
        info = TensorInfo.of(args[0])
        if info.shape != before:
            node = self.emit(torch.ops.aten.new_empty.default, (value.node, list(info.shape)), {}, (info,))
            bind(args[0], Value(Cell(node, info), (), node))
        return result

    def _layout(self, functional: OpOverload, args: Any, kwargs: Any) -> TensorInfo | None:
        """What the functional form of a write makes, if that may differ from what is written to."""
        target = args[0]
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
        plain = all(
            t.dtype == target.dtype
            and t.shape == target.shape
            and t.stride() == target.stride()
            or t.dim() == 0
            for t in tensors
        ) and _dense(target)
        return None if plain else TensorInfo.of(self._run(functional, args, kwargs))


def _training(args: Any) -> bool:
    """``training`` of native_batch_norm(input, weight, bias, running_mean, running_var, training, ...)."""
    return bool(args[5]) and args[3] is not None


def _dense(tensor: torch.Tensor) -> bool:
    """No gaps and no overlaps: a result in the same layout has the same strides."""
    expected = 1
    for size, stride in sorted(zip(tensor.shape, tensor.stride()), key=lambda pair: pair[1]):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def value_of(tensor: torch.Tensor) -> Value:
    """What a fake tensor stands for."""
    value: Value = getattr(tensor, "_emplace")
    return value


def bind(tensor: torch.Tensor, value: Value) -> None:
    """Makes a fake tensor stand for a value."""
    setattr(tensor, "_emplace", value)

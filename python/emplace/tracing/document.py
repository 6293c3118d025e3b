"""The emplace-graph v1 document of a traced step."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from operator import getitem
from typing import Any

import torch
from torch.fx import GraphModule, Node

from emplace.tracing.flops import flops
from emplace.tracing.functional import FunctionalOp, kind_of
from emplace.tracing.optimizers import WholeStep
from emplace.tracing.step import StepInput
from emplace.tracing.values import TensorInfo

_DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}
_KINDS = {"parameter": "Parameter", "buffer": "Buffer", "optimizer": "OptimizerState", "input": "Input"}
_FREE = {"detach", "alias", "lift_fresh", "lift"}
_PLACEMENT_ATTRIBUTES = (
    "dim",
    "groups",
    "start",
    "end",
    "step",
    "index",
    "dim0",
    "dim1",
    "stride",
    "padding",
    "dilation",
    "kernel_size",
    "transposed",
    "output_mask",
    "is_causal",
    "padding_idx",
    "reduction",
    "training",
)

_warned: set[str] = set()


def describe(info: TensorInfo) -> dict[str, Any]:
    """Type and shape of a tensor, as the format has them."""
    return {
        "dtype": _DTYPES.get(info.dtype, "f64" if info.dtype.is_complex else "u8"),
        "shape": list(info.shape),
    }


class DocumentMaker:
    """Turns the nodes of a step into ops."""

    def __init__(self, module: GraphModule, inputs: list[StepInput]) -> None:
        self.module, self.inputs = module, inputs
        self.ops: list[dict[str, Any]] = []
        self.op_of: dict[str, str] = {}
        self.where: dict[Node, list[tuple[int, int]]] = {}
        self.ids: dict[str, int] = {}
        self.bytes_by_name: dict[str, int] = {}
        self.unknown: dict[str, int] = {}

    def make(self) -> list[dict[str, Any]]:
        """The ops, in the order of the trace."""
        inputs = iter(self.inputs)
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, next(inputs))
            elif node.op == "get_attr":
                self._constant(node)
            elif node.op == "call_function":
                self._call(node)
        return self.ops

    def _add(self, node: Node, op: dict[str, Any]) -> None:
        self.where[node] = [(len(self.ops), 0)]
        self.ids[op["name"]] = len(self.ops)
        self.ops.append({"id": len(self.ops), **op})

    def _placeholder(self, node: Node, entry: StepInput) -> None:
        info: TensorInfo = node.meta["tensors"][0]
        owned = entry.kind != "input"
        op: dict[str, Any] = {
            "name": entry.op,
            "type": _KINDS[entry.kind],
            "inputs": [],
            "outputs": [describe(info)],
            "attrs": {},
            "flops": 0,
            "param_bytes": info.nbytes if owned else 0,
            "group": node.meta["scope"],
            "phase": "update" if entry.kind == "optimizer" else "forward",
        }
        if entry.kind == "optimizer" and entry.parameter is not None:
            op["colocate"] = self.ids[entry.parameter]
        self._add(node, op)

    def _constant(self, node: Node) -> None:
        self.op_of[node.name] = node.name
        self._add(
            node,
            {
                "name": node.name,
                "type": "Constant",
                "inputs": [],
                "flops": 0,
                "param_bytes": 0,
                "attrs": {},
                "outputs": [describe(node.meta["tensors"][0])],
                "group": node.meta["scope"],
                "phase": node.meta["phase"],
            },
        )

    def _sources(self, value: Any) -> Iterator[tuple[int, int]]:
        if isinstance(value, Node):
            yield from self.where[value]
        elif isinstance(value, (list, tuple)):
            for each in value:
                yield from self._sources(each)

    def _call(self, node: Node) -> None:
        target, args = node.target, node.args
        if target is getitem:
            source, index = args
            assert isinstance(source, Node) and isinstance(index, int)
            made = sum(info is not None for info in source.meta["tensors"][:index])
            self.where[node] = [(self.where[source][0][0], made)]
            return
        schema = getattr(target, "_schema", None)
        if isinstance(target, WholeStep):
            self._record(
                node, target.op_type, list(self._sources(list(args))), list(node.meta["tensors"]), {}, 0
            )
            return
        if (
            schema is None
        ):  # Arithmetic of Python numbers: what reads it depends on the tensors that it came from.
            self.where[node] = list(dict.fromkeys(self._sources(list(args))))
            return
        name = kind_of(target.func if isinstance(target, FunctionalOp) else target).name
        if name in _FREE:
            self.where[node] = list(self._sources(args[0]))
            return
        self._op(node, schema, name)

    def _op(self, node: Node, schema: Any, name: str) -> None:
        sources = list(self._sources([*node.args, *node.kwargs.values()]))
        infos: list[TensorInfo] = [i for i in node.meta["tensors"] if i is not None]
        if node.meta.get("scalar"):
            argument = node.args[0]
            assert isinstance(argument, Node)
            infos = [
                TensorInfo((), (), argument.meta["tensors"][0].dtype, argument.meta["tensors"][0].device)
            ]
        space = str(schema.name).split("::")[0]
        shapes = [self.ops[producer]["outputs"][output]["shape"] for producer, output in sources]
        view = not isinstance(node.target, FunctionalOp) and (
            kind_of(node.target).view or name in ("_unsafe_view",)
        )
        count = 0 if view else flops(name, node.target, shapes, list(node.args), [i.shape for i in infos])
        moved = sum(i.nbytes for i in infos)
        if space != "aten" and count == 0:
            count = None
        self.bytes_by_name[name] = self.bytes_by_name.get(name, 0) + (0 if view else moved)
        if count is None:
            self.unknown[f"{space}::{name}"] = self.unknown.get(f"{space}::{name}", 0) + moved
        attributes = _attributes(schema, node)
        if view:
            attributes["view"] = True
        self._record(node, f"{space}::{name}", sources, infos, attributes, count or 0)

    def _record(
        self,
        node: Node,
        kind: str,
        sources: list[tuple[int, int]],
        infos: list[TensorInfo],
        attributes: dict[str, Any],
        count: int,
    ) -> None:
        op: dict[str, Any] = {
            "name": node.name,
            "type": kind,
            "inputs": [list(source) for source in sources],
            "outputs": [describe(info) for info in infos],
            "attrs": attributes,
            "flops": count,
            "param_bytes": 0,
            "group": node.meta["scope"],
            "phase": node.meta["phase"],
        }
        parameter = node.meta.get("parameter")
        if parameter in self.ids:
            op["colocate"] = self.ids[parameter]
        self.op_of[node.name] = node.name
        self._add(node, op)

    def unknown_cost(self) -> dict[str, float]:
        """Ops of unknown cost, with their share of the bytes that all ops write."""
        total = max(1, sum(self.bytes_by_name.values()))
        return {name: round(moved / total, 6) for name, moved in sorted(self.unknown.items())}


def _attributes(schema: Any, node: Node) -> dict[str, Any]:
    """Arguments that decide the cost, by their names in the schema."""
    found: dict[str, Any] = {}
    for i, argument in enumerate(schema.arguments):
        value = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
        if argument.name not in _PLACEMENT_ATTRIBUTES or value is None or isinstance(value, Node):
            continue
        if isinstance(value, (list, tuple)) and value and all(isinstance(v, (int, bool)) for v in value):
            found[argument.name] = list(value)
        elif isinstance(value, (bool, int)) and abs(int(value)) < 1 << 60:
            found[argument.name] = value
    return found


def signature(ops: list[dict[str, Any]]) -> str:
    """sha256 over names, types, shapes and edges of the ops."""
    digest = hashlib.sha256()
    for op in ops:
        digest.update(json.dumps([op["name"], op["type"], op["inputs"], op["outputs"]]).encode())
    return digest.hexdigest()


def warn_unknown(unknown: dict[str, float]) -> None:
    """Warns once for each op whose cost is not known."""
    new = {name: share for name, share in unknown.items() if name not in _warned}
    if new:
        _warned.update(new)
        listed = ", ".join(f"{name} ({share:.1%} of the bytes)" for name, share in new.items())
        warnings.warn(f"flops of these ops are unknown and count as 0: {listed}", stacklevel=4)

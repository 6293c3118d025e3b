"""The emplace-graph v1 document of a traced step."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from operator import getitem
from typing import Any

import torch
from torch.fx import GraphModule, Node

from emplace.tracing.functional import SILENT_VIEWS, FunctionalOp, kind_of, summed
from emplace.tracing.kernels import PATTERNS, counterpart, only_device
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
#: Releases differ in the formats of eight bits that they have.
for _name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"):
    if hasattr(torch, _name):
        _DTYPES[getattr(torch, _name)] = "f8"
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
    # These decide the work alone.
    "alpha",
    "dims_self",
    "expand1",
    "expand2",
    "expand3",
    "max_k",
    "max_seqlen_k",
    "mode",
    "num_head",
    "num_heads",
    "sumdim",
)


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
        #: Ops that only one type of device can run, with that type, and how many there are.
        self.pinned: dict[tuple[str, str], int] = {}
        #: Ops that a GPU runs as another kernel.
        self.exchanged: set[str] = set()

    def make(self) -> list[dict[str, Any]]:
        """The ops, in the order of the trace."""
        inputs = iter(self.inputs)
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, next(inputs))
            elif node.op == "get_attr":
                self._add(node, "Constant", list(node.meta["tensors"]))
            elif node.op == "call_function":
                self._call(node)
        return self.ops

    def _add(
        self,
        node: Node,
        kind: str,
        outputs: list[TensorInfo],
        *,
        name: str | None = None,
        inputs: Sequence[tuple[int, int]] = (),
        attributes: dict[str, Any] | None = None,
        flops: int | None = 0,
        param_bytes: int = 0,
        phase: str | None = None,
        owner: str | None = None,
    ) -> None:
        """An op, on the device of the op `owner` if that exists. The program counts flops that are None."""
        op: dict[str, Any] = {
            "id": len(self.ops),
            "name": name or node.name,
            "type": kind,
            "inputs": [list(source) for source in inputs],
            "outputs": [describe(info) for info in outputs],
            "attrs": attributes or {},
            "flops": flops,
            "param_bytes": param_bytes,
            "group": node.meta["scope"],
            "phase": phase or node.meta["phase"],
        }
        if owner in self.ids:
            op["colocate"] = self.ids[owner]
        if name is None:
            self.op_of[node.name] = node.name
        self.where[node] = [(op["id"], 0)]
        self.ids[op["name"]] = op["id"]
        self.ops.append(op)

    def _placeholder(self, node: Node, entry: StepInput) -> None:
        info: TensorInfo = node.meta["tensors"][0]
        state = entry.kind == "optimizer"
        self._add(
            node,
            _KINDS[entry.kind],
            [info],
            name=entry.op,
            param_bytes=info.nbytes if entry.kind != "input" else 0,
            phase="update" if state else "forward",
            owner=entry.parameter if state else None,
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
            sources, owner = list(self._sources(list(args))), node.meta.get("parameter")
            self._add(
                node, target.op_type, list(node.meta["tensors"]), inputs=sources, owner=owner, flops=None
            )
            return
        if schema is None:
            # Arithmetic of Python numbers: what reads it depends on the tensors that it came from.
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
        view = not isinstance(node.target, FunctionalOp) and (
            kind_of(node.target).view or name in SILENT_VIEWS
        )
        attributes = _attributes(schema, node)
        if view:
            attributes["view"] = True
        self._add(
            node,
            f"{space}::{name}",
            [*infos, *summed(node)],
            inputs=sources,
            attributes=attributes,
            flops=0 if view else None,
            owner=node.meta.get("parameter"),
        )
        self._devices(node)

    def _devices(self, node: Node) -> None:
        """Pins the op to the devices that have a kernel of it, unless others have a counterpart."""
        func: Any = node.target.func if isinstance(node.target, FunctionalOp) else node.target
        only, op = only_device(func), self.ops[-1]
        if only is not None:
            op["devices"] = [PATTERNS[only]]
            self.pinned[op["type"], only] = self.pinned.get((op["type"], only), 0) + 1
        elif counterpart(func) is not None:
            self.exchanged.add(op["type"])

    def mark_results(self, nodes: Iterable[Node]) -> None:
        """Marks the tensors that the step returns: these stay in memory until its end."""
        for node in nodes:
            for op, output in self.where[node]:
                self.ops[op]["results"] = sorted({output, *self.ops[op].get("results", ())})

    def notes(self) -> list[str]:
        """Where ops run that not every device has a kernel of, a line for each kind."""
        found = [
            f"PyTorch has {name} for {'a CPU' if only == 'cpu' else 'CUDA'} alone: pinned to {PATTERNS[only]}"
            f" ({count} op{'s' if count > 1 else ''})"
            for (name, only), count in sorted(self.pinned.items())
        ]
        if self.exchanged:
            names = ", ".join(sorted(self.exchanged))
            found.append(f"PyTorch has {names} for a CPU alone: elsewhere the device's own kernel runs")
        return found


def _attributes(schema: Any, node: Node) -> dict[str, Any]:
    """Arguments that decide the cost, by their names in the schema."""
    found: dict[str, Any] = {}
    for i, argument in enumerate(schema.arguments):
        value = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
        if argument.name not in _PLACEMENT_ATTRIBUTES or value is None or isinstance(value, Node):
            continue
        if argument.name == "alpha" and value == 1:
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

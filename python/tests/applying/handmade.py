"""Traced steps made by hand, for tests that must not depend on the tracer."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from emplace.applying.lowering import is_view
from emplace.tracing.step import StepInput, StepOutput, TracedStep
from emplace.tracing.values import TensorInfo


class Tensor:
    """A slot that is one tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def own(self) -> torch.Tensor:
        return self.tensor

    read = own

    def write(self, value: torch.Tensor) -> None:
        self.tensor.copy_(value)


class Leaves:
    """A batch that is a list of tensors."""

    def flatten(self, batch: Any) -> list[torch.Tensor]:
        return list(batch)

    def unflatten(self, leaves: list[torch.Tensor]) -> Any:
        return leaves[0] if len(leaves) == 1 else leaves


@dataclasses.dataclass
class Made:
    """A step, its graph, its state by name, a batch, and the step without a placement."""

    step: TracedStep
    document: dict[str, Any]
    state: dict[str, torch.Tensor]
    batch: list[torch.Tensor]
    function: Callable[..., Any]

    def plain(self, state: dict[str, torch.Tensor], batch: list[torch.Tensor]) -> torch.Tensor:
        """One step of plain PyTorch; writes the new state in place and returns the loss."""
        with torch.no_grad():
            loss, *fresh = self.function(*state.values(), *batch)
            for old, new in zip(state.values(), fresh):
                old.copy_(new)
        return loss


def traced(function: Callable[..., Any], state: dict[str, torch.Tensor], batch: list[torch.Tensor]) -> Made:
    """The step of a function (state…, batch…) -> (loss, new state…)."""
    graph = make_fx(function)(*[t.clone() for t in state.values()], *[t.clone() for t in batch])
    graph.graph.eliminate_dead_code()
    graph.recompile()
    names = [*state, *(f"batch.{i}" for i in range(len(batch)))]
    kinds = ["optimizer" if "/" in n else "parameter" for n in state] + ["input"] * len(batch)
    owners = [n.split("/")[0] if "/" in n else None for n in names]
    inputs: Any = [StepInput(k, n, o, n) for k, n, o in zip(kinds, names, owners)]  # type: ignore[arg-type]
    outputs: Any = [StepOutput("loss", "loss")]
    outputs += [StepOutput(k, n) for k, n in zip(kinds, state)]  # type: ignore[arg-type]
    op_of, draws, ops, where = {}, set(), [], {}
    for node in graph.graph.nodes:
        described = node.meta.get("tensor_meta")
        several = described if not hasattr(described, "dtype") else (described,)
        node.meta["tensors"] = tuple(_info(each) for each in several or ())
        if node.op == "placeholder":
            at = len(ops)
            kind = {"parameter": "Parameter", "optimizer": "OptimizerState", "input": "Input"}[kinds[at]]
            where[node] = (at, 0)
            ops.append(
                {
                    "id": at,
                    "name": names[at],
                    "type": kind,
                    "inputs": [],
                    "outputs": [_shape(node)],
                    "attrs": {},
                    "flops": 0,
                    "param_bytes": 0,
                    "phase": "forward",
                }
            )
        elif node.op == "call_function" and node.target.__name__ != "getitem":
            if node.target in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
                where[node] = where[node.args[0]]
                continue
            op_of[node.name] = node.name
            if (
                "bernoulli" in str(node.target)
                or "native_dropout" in str(node.target)
                or "rand" in str(node.target)
            ):
                draws.add(node.name)
            items = sorted(
                (u.args[1], u) for u in node.users if getattr(u.target, "__name__", "") == "getitem"
            )
            for k, (_, user) in enumerate(items):
                where[user] = (len(ops), k)
            where[node] = (len(ops), 0)
            sources = [a for a in _nodes(node.args) + _nodes(node.kwargs)]
            ops.append(
                {
                    "id": len(ops),
                    "name": node.name,
                    "type": "aten::" + node.target._schema.name.split("::")[1],
                    "inputs": [list(where[a]) for a in sources],
                    "outputs": [_shape(u) for _, u in items] or [_shape(node)],
                    "attrs": {"view": True} if is_view(node) else {},
                    "flops": 1000,
                    "param_bytes": 0,
                    "phase": "forward",
                }
            )
    document = {"format": "emplace-graph v1", "name": "handmade", "source": "test", "meta": {}, "ops": ops}
    step = TracedStep(
        graph,
        inputs,
        outputs,
        op_of,
        draws,
        "0" * 64,
        torch.nn.Module(),
        None,
        Leaves(),
        Leaves(),
        {},
        {n: Tensor(t) for n, t in state.items()},
    )
    return Made(step, document, state, batch, function)


def _nodes(argument: Any) -> list[Any]:
    if isinstance(argument, torch.fx.Node):
        return [argument]
    if isinstance(argument, dict):
        return [n for a in argument.values() for n in _nodes(a)]
    if isinstance(argument, (list, tuple)):
        return [n for a in argument for n in _nodes(a)]
    return []


def _info(described: Any) -> TensorInfo | None:
    if described is None:
        return None
    shape, stride = tuple(described.shape), tuple(described.stride)
    return TensorInfo(shape, stride, described.dtype, torch.device("cpu"))


def _shape(node: Any) -> dict[str, Any]:
    meta = node.meta["tensor_meta"]
    names = {torch.float32: "f32", torch.int64: "i64", torch.bool: "bool", torch.float64: "f64"}
    return {"dtype": names[meta.dtype], "shape": [int(s) for s in meta.shape]}


def mlp(seed: int = 0) -> Made:
    """Two layers with dropout and momentum: views, parts, several outputs, random draws."""
    torch.manual_seed(seed)
    state = {
        "w1": torch.randn(12, 32),
        "b1": torch.randn(32),
        "w2": torch.randn(5, 16),
        "w1/m": torch.zeros(12, 32),
        "b1/m": torch.zeros(32),
        "w2/m": torch.zeros(5, 16),
    }
    batch = [torch.randn(8, 12), torch.randint(0, 5, (8,))]

    def function(w1: Any, b1: Any, w2: Any, m1: Any, mb: Any, m2: Any, x: Any, y: Any) -> Any:
        w1, b1, w2 = w1.detach().requires_grad_(), b1.detach().requires_grad_(), w2.detach().requires_grad_()
        with torch.enable_grad():
            hidden = torch.addmm(b1, x, w1)
            left, right = hidden.split(16, 1)
            gated = torch.tanh(left) * torch.sigmoid(right)
            dropped = gated * torch.bernoulli(torch.full_like(gated, 0.75)) / 0.75
            normal = torch.nn.functional.layer_norm(dropped, [16])
            logits = normal @ w2.t()
            loss = torch.nn.functional.cross_entropy(logits, y) + 0.01 * w1[:, :7].sum()
            grads = torch.autograd.grad(loss, [w1, b1, w2])
        new_m = [m * 0.9 + g for m, g in zip((m1, mb, m2), grads)]
        new_p = [p.detach() - 0.1 * m for p, m in zip((w1, b1, w2), new_m)]
        return (loss.detach(), *new_p, *new_m)

    return traced(function, state, batch)


def random_placement(made: Made, devices: list[str], seed: int) -> dict[str, str]:
    """Every op on a device of its own choice."""
    choose = random.Random(seed)
    return {op["name"]: choose.choice(devices) for op in made.document["ops"]}

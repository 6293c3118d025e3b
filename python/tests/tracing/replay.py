"""Plain PyTorch beside the traced step: equal to the bit, or what differs."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy
import torch

from emplace.tracing import TracedStep, trace

Loss = Callable[[torch.nn.Module, Any], torch.Tensor]


def trace_step(*arguments: Any, **options: Any) -> tuple[dict[str, Any], TracedStep]:
    """The document and the step of a trace."""
    graph = trace(*arguments, **options)
    assert graph.step is not None
    return graph.document, graph.step


def same_bits(a: Any, b: Any) -> bool:
    """Equal types, shapes and bits (so -0.0 is not 0.0, and nan is nan)."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) and bool(a == b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    a, b = (t.detach().contiguous().reshape(-1) for t in (a, b))
    size = a.element_size()
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    return torch.equal(a.view(kind), b.view(kind))


def seed(value: int) -> None:
    """Seeds every generator that a model may draw from."""
    torch.manual_seed(value)
    random.seed(value)
    numpy.random.seed(value)


def plain_step(
    model: torch.nn.Module, batch: Any, loss: Loss, optimizer: torch.optim.Optimizer
) -> torch.Tensor:
    """One plain training step."""
    optimizer.zero_grad()
    value = loss(model, batch)
    value.backward()
    optimizer.step()
    return value.detach()


def run(step: TracedStep, batch: Any) -> Any:
    """One step of the trace, on the user's own tensors."""
    with torch.no_grad():
        return step.store(step.module(*step.arguments(batch)))


def differences(
    a: torch.nn.Module, oa: torch.optim.Optimizer, b: torch.nn.Module, ob: torch.optim.Optimizer
) -> list[str]:
    """Names of the parameters, buffers and states whose bits differ."""
    found = []
    for (name, x), y in zip([*a.named_parameters(), *a.named_buffers()], [*b.parameters(), *b.buffers()]):
        if not same_bits(x, y):
            found.append(name)
    for (name, p), q in zip(a.named_parameters(), b.parameters()):
        mine, theirs = (
            {k: v for k, v in o.state.get(t, {}).items() if v is not None} for o, t in ((oa, p), (ob, q))
        )
        found += [
            f"{name}/{k}" for k in mine.keys() | theirs.keys() if not same_bits(mine.get(k), theirs.get(k))
        ]
    return found


def compare(
    model: torch.nn.Module,
    batch: Any,
    loss: Loss,
    make: Callable[[Any], torch.optim.Optimizer],
    *,
    steps: int = 3,
    before: int = 0,
    **options: Any,
) -> tuple[dict[str, Any], TracedStep, list[str]]:
    """Traces, runs some steps beside plain PyTorch, and reports what differs. ``before``: plain steps before
    the trace.
    """
    other = copy.deepcopy(model)
    optimizer, reference = make(model.parameters()), make(other.parameters())
    for i in range(before):
        for m, o in ((model, optimizer), (other, reference)):
            seed(i)
            plain_step(m, batch, loss, o)
    seed(50)
    document, step = trace_step(model, batch, loss, optimizer, **options)
    found = []
    for i in range(steps):
        seed(100 + i)
        expected = plain_step(other, batch, loss, reference)
        seed(100 + i)
        if not same_bits(run(step, batch), expected):
            found.append(f"loss of step {i}")
    return document, step, found + differences(model, optimizer, other, reference)

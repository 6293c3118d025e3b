"""Compares a placed step with the same step on one device, op by op."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from emplace.applying.devices import CpuDevice, Device
from emplace.applying.lowering import LoweredStep, target_name
from emplace.applying.plan import StepPlan
from emplace.applying.step import BoundPlan, check_ops
from emplace.applying.tasks import Kind
from emplace.errors import EmplaceError

if TYPE_CHECKING:
    from emplace.tracing.step import TracedStep

#: Ops whose result has no defined value.
_UNDEFINED = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
)

#: (name of the kernel's node, output)
_Key = tuple[str, int | None]


@dataclasses.dataclass(frozen=True)
class Difference:
    """An output of an op that differs."""

    op: str
    scope: str
    output: int
    max_ulp: int
    """Largest distance of two elements in units of the last place; for whole numbers their difference."""
    elements: int
    """Number of elements that differ."""


@dataclasses.dataclass(frozen=True)
class Verification:
    """Whether a placed step gives the bits of the step on one device. True in conditions if so."""

    identical: bool
    compared: int
    """Number of tensors that were compared."""
    skipped: int
    """Number of tensors without a defined value (``empty``)."""
    first_difference: str | None
    """The first op, in the order of the trace, whose result differs."""
    differences: tuple[Difference, ...]
    """The first op's results and the new values of state that differ."""

    def __bool__(self) -> bool:
        return self.identical

    def __str__(self) -> str:
        if self.identical:
            return f"identical: {self.compared} tensors"
        lines = [f"differs from op '{self.first_difference}' on"]
        lines += [
            f"  {d.op}"
            + (f" ({d.scope})" if d.scope else "")
            + f": {d.elements} elements, at most {d.max_ulp} ulp"
            for d in self.differences
        ]
        return "\n".join(lines)


def verify(graph: Any, placement: Any, batch: Any = None, *, threads: int | None = None) -> Verification:
    """Runs a traced step as placed and on one device, on logical CPU devices, and compares every tensor.

    Model and optimizer stay as they are. ``batch`` is a batch as the step takes it; without one, numbers are
    drawn and whole numbers are 0.
    """
    step: TracedStep | None = getattr(graph, "step", None)
    if step is None:
        raise EmplaceError(
            "graph",
            "was not traced from a model, so there is nothing to run",
            "make it with emplace.trace(model, batch)",
        )
    sha = getattr(placement, "graph_sha256", None)
    if sha is not None and sha != graph.sha256:
        raise EmplaceError("placement", "is of another graph", "place this graph again")
    ops = placement.ops_by_device() if hasattr(placement, "ops_by_device") else placement
    return compare_with_one_device(LoweredStep(step), ops, arguments_of(step, batch), threads=threads)


def arguments_of(step: TracedStep, batch: Any = None, seed: int = 0) -> list[torch.Tensor]:
    """Copies of all that the step reads, on the CPU."""
    if batch is None:
        state = {entry.op: step.slots[entry.op].read() for entry in step.inputs if entry.kind != "input"}
        nodes = [node for node in step.module.graph.nodes if node.op == "placeholder"]
        generator = torch.Generator().manual_seed(seed)
        found = [
            state[entry.op] if entry.kind != "input" else _drawn(node, generator)
            for entry, node in zip(step.inputs, nodes)
        ]
    else:
        found = step.arguments(batch)
    with torch.no_grad():
        return [tensor.detach().to("cpu", copy=True) for tensor in found]


def _drawn(node: Any, generator: torch.Generator) -> torch.Tensor:
    described = node.meta["tensors"][0]
    if described.dtype.is_floating_point:
        return torch.randn(described.shape, generator=generator).to(described.dtype)
    return torch.zeros(described.shape, dtype=described.dtype)


def compare_with_one_device(
    lowered: LoweredStep,
    placement: Mapping[str, str],
    arguments: list[torch.Tensor],
    *,
    threads: int | None = None,
    progress: Callable[[], None] | None = None,
) -> Verification:
    """The comparison, from the same state and the same random numbers."""
    check_ops(lowered, placement)
    count = threads or torch.get_num_threads()
    names = sorted(set(placement.values()))
    placed = _Run(lowered, placement, names, arguments, count, progress)
    alone = _Run(lowered, {op: "one device" for op in placement}, ["one device"], arguments, count, progress)
    try:
        hashes, expected = placed.hashes(), alone.hashes()
        order = [
            (kernel.node.name, lowered.values[v].output) for kernel in lowered.kernels for v in kernel.outputs
        ]
        defined = [key for key in order if key in expected]
        different = [key for key in defined if hashes.get(key) != expected[key]]
        if not different:
            return Verification(True, len(defined), len(order) - len(defined), None, ())
        first = next(k for k in lowered.kernels if k.node.name == different[0][0])
        state = {
            (lowered.buffers[lowered.values[v].buffer].owner.name, lowered.values[lowered.root(v)].output)
            for v in lowered.results
            if v is not None
        }
        wanted = [key for key in different if key[0] == first.node.name or key in state]
        found, right = placed.tensors(set(wanted)), alone.tensors(set(wanted))
        kernels = {k.node.name: k for k in lowered.kernels}
        differences = tuple(
            _difference(kernels[key[0]].op, lowered.scope(kernels[key[0]].node), key, found[key], right[key])
            for key in wanted
        )
        return Verification(False, len(defined), len(order) - len(defined), first.op, differences)
    finally:
        placed.close()
        alone.close()


class _Run:
    """Runs of one placement that look at what the kernels write."""

    def __init__(
        self,
        lowered: LoweredStep,
        placement: Mapping[str, str],
        names: list[str],
        arguments: list[torch.Tensor],
        threads: int,
        progress: Callable[[], None] | None,
    ) -> None:
        self._arguments = arguments
        devices: list[Device] = [CpuDevice(name, threads) for name in names]
        self._bound = BoundPlan(StepPlan(lowered, placement, names), devices)
        self._look: Callable[[_Key, torch.Tensor], None] = lambda key, tensor: None
        for entry in self._bound.bound:
            if entry.task.kind is Kind.KERNEL and target_name(entry.task.node) not in _UNDEFINED:
                entry.call = self._watched(entry.task.node.name, entry.outputs, entry.call, progress)

    def _watched(
        self, name: str, outputs: list[tuple[int | None, int]], call: Any, progress: Callable[[], None] | None
    ) -> Callable[[list[Any]], Any]:
        def watched(values: list[Any]) -> Any:
            result = call(values)
            for at, _ in outputs:
                self._look((name, at), result if at is None else result[at])
            if progress is not None:
                progress()
            return result

        return watched

    def hashes(self) -> dict[_Key, bytes]:
        found: dict[_Key, bytes] = {}
        lock = threading.Lock()

        def look(key: _Key, tensor: torch.Tensor) -> None:
            digest = hashlib.blake2b(_bytes(tensor), digest_size=16).digest()
            with lock:
                found[key] = digest

        self._run(look)
        return found

    def tensors(self, wanted: set[_Key]) -> dict[_Key, torch.Tensor]:
        found: dict[_Key, torch.Tensor] = {}

        def look(key: _Key, tensor: torch.Tensor) -> None:
            if key in wanted:
                found[key] = tensor.clone() if isinstance(tensor, torch.Tensor) else torch.tensor(tensor)

        self._run(look)
        return found

    def _run(self, look: Callable[[_Key, torch.Tensor], None]) -> None:
        self._look = look
        state = torch.get_rng_state()
        try:
            torch.manual_seed(0)
            with torch.no_grad():
                self._bound.run(self._arguments)
        finally:
            torch.set_rng_state(state)

    def close(self) -> None:
        self._bound.pool.close()


def _bytes(tensor: Any) -> Any:
    if not isinstance(tensor, torch.Tensor):
        return repr(tensor).encode()
    if tensor.numel() == 0:
        return b""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()


def _difference(op: str, scope: str, key: _Key, left: torch.Tensor, right: torch.Tensor) -> Difference:
    a, b = _ordered(left), _ordered(right)
    same = _bits(left) == _bits(right)
    distance = (a - b).abs().masked_fill(same, 0)
    return Difference(op, scope, key[1] or 0, int(distance.max()), int((~same).sum()))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    flat = tensor.contiguous().reshape(-1)
    return flat.view(whole[flat.element_size()]).to(torch.int64)


def _ordered(tensor: torch.Tensor) -> torch.Tensor:
    """Whole numbers in the order of the elements, neighbours 1 apart."""
    bits = _bits(tensor)
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return bits
    size = tensor.element_size() // (2 if tensor.is_complex() else 1)
    if size == 8:
        return torch.where(bits < 0, torch.iinfo(torch.int64).min - bits, bits)
    return torch.where(bits < 0, -(1 << (8 * size - 1)) - bits, bits)

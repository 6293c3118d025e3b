"""Compares a placed step with the same step on one device, op by op."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from emplace.applying.binding import Call, Values
from emplace.applying.devices import CpuDevice, Device
from emplace.applying.lowering import LoweredStep, target_name
from emplace.applying.micro_batches import micro_batched
from emplace.applying.plan import StepPlan
from emplace.applying.planning import PlannedStep
from emplace.applying.running import BoundTask
from emplace.applying.step import BoundPlan, check_ops
from emplace.applying.tasks import Kind
from emplace.errors import EmplaceError

if TYPE_CHECKING:
    from emplace.tracing.step import TracedStep

#: Ops whose result has no defined value.
_UNDEFINED = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
)


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

    def __bool__(self) -> bool:
        return self.identical

    def __str__(self) -> str:
        if self.identical:
            return f"identical: {self.compared} tensors"
        return f"differs from op '{self.first_difference}' on"


def verify(graph: Any, placement: Any, batch: Any = None, *, threads: int | None = None) -> Verification:
    """Runs a traced step as placed and on one device, on logical CPU devices, and compares every tensor.

    Model and optimizer stay as they are. ``batch`` is a batch as the step takes it; without one, numbers are
    drawn and whole numbers are 0. Of a placement with micro-batches it is a list of them.
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
    several = placement._micro_batches() if hasattr(placement, "_micro_batches") else None
    if several is not None:
        check_ops(LoweredStep(step), ops)
        unrolled, ops = micro_batched(PlannedStep(step, {}, {}), ops, several)
        step = unrolled.step
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
    progress: Callable[[], None] = lambda: None,
) -> Verification:
    """The comparison, from the same state and the same random numbers."""
    check_ops(lowered, placement)
    count = threads or torch.get_num_threads()
    names, one = sorted(set(placement.values())), "one device"
    hashes = _hashes(lowered, placement, names, arguments, count, progress)
    expected = _hashes(lowered, dict.fromkeys(placement, one), [one], arguments, count, progress)
    outputs = [
        (kernel.op, (kernel.node.name, lowered.values[value].output))
        for kernel in lowered.kernels
        for value in kernel.outputs
    ]
    first = next((op for op, key in outputs if hashes.get(key) != expected.get(key)), None)
    return Verification(first is None, len(expected), len(outputs) - len(expected), first)


def _hashes(
    lowered: LoweredStep,
    placement: Mapping[str, str],
    names: list[str],
    arguments: list[torch.Tensor],
    threads: int,
    progress: Callable[[], None],
) -> dict[tuple[str, int | None], bytes]:
    """Hashes of what the kernels of one step write, by the name of the node and the output."""
    devices: list[Device] = [CpuDevice(name, threads) for name in names]
    bound = BoundPlan(StepPlan(lowered, placement, names), devices)
    found: dict[tuple[str, int | None], bytes] = {}

    def watched(entry: BoundTask, call: Any) -> Call:
        def watching(values: Values) -> Any:
            result = call(values)
            traced = entry.task.node.meta.get("tensors") or ()
            for at, _ in entry.outputs:
                value = result if at is None else result[at]
                if _own(value, traced[at or 0] if len(traced) > (at or 0) else None):
                    continue
                data = _bytes(value)
                found[entry.task.node.name, at] = hashlib.blake2b(data, digest_size=16).digest()
            progress()
            return result

        return watching

    for entry in bound.bound:
        if entry.task.kind is Kind.KERNEL and target_name(entry.task.node) not in _UNDEFINED:
            entry.call = watched(entry, entry.call)
    state = torch.get_rng_state()
    try:
        torch.manual_seed(0)
        with torch.no_grad():
            bound.run(arguments)
    finally:
        torch.set_rng_state(state)
        bound.pool.close()
    return found


def _own(value: Any, traced: Any) -> bool:
    """Whether this is what a kernel keeps for its backward, in a form of its own: PyTorch's shapes know no
    size of it, and some of its bytes are never written.
    """
    return traced is not None and not traced.numel and isinstance(value, torch.Tensor) and bool(value.numel())


def _bytes(tensor: Any) -> Any:
    if not isinstance(tensor, torch.Tensor):
        return repr(tensor).encode()
    if tensor.layout == torch.sparse_coo:
        parts = tensor._indices(), tensor._values()
        return b"".join(bytes(_bytes(part)) for part in parts)
    if tensor.numel() == 0:
        return b""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()

"""Measures a placement of a traced step in this process: the model of a notebook cannot be imported by
another."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from emplace.errors import EmplaceError, need
from emplace.program import Json

if TYPE_CHECKING:
    from emplace.placement import Placement


def measure_here(
    placement: Placement,
    *,
    batch: Any = None,
    devices: Mapping[str, str] | None = None,
    threads: int | None = None,
    warmups: int | None = None,
    samples: int | None = None,
) -> Json:
    """The JSON of ``emplace evaluate --executor torch``. The user's model and optimizer stay as they are: the
    executor steps copies of their tensors."""
    need("executor 'torch'", torch="torch", msgpack="msgpack")
    import torch

    from emplace.torch_executor.executor import TorchExecutor, on_this_machine
    from emplace.torch_executor.timing import Timing, deviation
    from emplace.wire.executor_messages import DeviceFacts

    step, machine = placement.graph.step, placement.machine
    if step is None or machine is None:
        raise EmplaceError(
            "executor 'torch'",
            f"{placement.graph.name} was not traced here",
            'give model="my_module:make_step", or a graph of em.trace',
        )
    facts = [DeviceFacts(one.name, kind=_kind(one.name), memory_bytes=one.memory_bytes) for one in machine]
    made, stand_ins = on_this_machine(facts, devices or {}, threads or torch.get_num_threads())
    least = samples if samples is not None else 5
    timing = Timing(warmups if warmups is not None else 5, least, 3 * least)
    executor = TorchExecutor(step, placement.graph.document, facts, made, timing, batch=batch)
    try:
        number = {fact.name: index for index, fact in enumerate(facts)}
        where = placement.ops_by_device()
        found = executor.measure(bytes(number[where[op.name]] for op in placement.graph.ops))
    finally:
        executor.close()
    taken, seconds = found.samples_s.tolist(), found.step_time_s if found.valid else None
    result: Json = {
        "step_time_s": seconds,
        "valid": found.valid,
        "peak_memory_bytes": found.peak_bytes.tolist(),
        "busy_s": found.busy_s.tolist(),
        "bytes_moved": found.bytes_moved,
        "executor": "torch",
        "label": "measured in PyTorch",
        "samples_s": taken,
        "synthetic_share": 0.0,
        "stand_ins": [f"{name} on CPU cores" for name in stand_ins],
        "objective": "step-time",
        "objective_value": seconds,
    }
    if not found.valid:
        result["reason"] = found.failure
    if taken:
        median, spread = statistics.median(taken), deviation(taken)
        result["spread"] = {"median_s": median, "mad_s": spread, "min_s": min(taken), "max_s": max(taken)}
    return result


def _kind(name: str) -> str:
    """
    >>> _kind("host0/cpu:1"), _kind("gpu:0")
    ('cpu', 'gpu')
    """
    return "cpu" if name.rpartition("/")[2].startswith("cpu") else "gpu"

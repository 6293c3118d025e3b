"""Measures a placement in this process, for ``emplace.evaluate(graph, placement, executor="torch")``."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import torch

from emplace.errors import EmplaceError
from emplace.torch_executor.device_facts import DeviceFacts
from emplace.torch_executor.executor import TorchExecutor, on_this_machine
from emplace.torch_executor.timing import Timing, deviation

if TYPE_CHECKING:
    from emplace.graph import Graph

_NO_CAP = 1 << 62


def evaluate_here(
    graph: Graph, placement: Any, warmups: int | None, samples: int | None, batch: Any, threads: int
) -> dict[str, Any]:
    """See ``emplace.torch_executor.evaluate_traced``. Devices have no caps but their own memory."""
    if graph.step is None:
        raise EmplaceError(
            "graph",
            "was not traced from a model, so PyTorch cannot run it",
            "make it with emplace.trace, or evaluate with executor='sim'",
        )
    where: dict[str, str] = placement.ops_by_device() if hasattr(placement, "ops_by_device") else placement
    names = list(getattr(placement, "devices", None) or sorted(set(where.values())))
    for name in set(where.values()) - set(names):
        names.append(name)
    facts = [DeviceFacts(name, name.split(":")[0], _NO_CAP) for name in names]
    devices, stand_ins = on_this_machine(facts, {}, threads)
    count = samples if samples is not None else 5
    timing = Timing(5 if warmups is None else warmups, count, 3 * count)
    draws = torch.get_rng_state()
    executor = TorchExecutor(graph.step, graph.document, facts, devices, timing, batch=batch)
    try:
        missing = [op for op in executor.ops if op not in where]
        if missing:
            raise EmplaceError(
                "placement", f"has no device for the op '{missing[0]}'", "place this graph again"
            )
        found = executor.measure(bytes(names.index(where[op]) for op in executor.ops))
    finally:
        executor.close()
        torch.set_rng_state(draws)
    taken = [float(second) for second in found["samples_s"]]
    result = {
        "step_time_s": found["step_time_s"],
        "valid": found["valid"],
        "peak_memory_bytes": [int(peak) for peak in found["peak_bytes"]],
        "busy_s": [float(busy) for busy in found["busy_s"]],
        "bytes_moved": found["bytes_moved"],
        "executor": "torch",
        "label": "measured in PyTorch",
        "samples_s": taken,
        "synthetic_share": 0.0,
        "stand_ins": stand_ins,
        "objective": "step-time",
        "objective_value": found["step_time_s"],
    }
    if taken:
        middle = statistics.median(taken)
        result["spread"] = {
            "median_s": middle,
            "mad_s": deviation(taken),
            "min_s": min(taken),
            "max_s": max(taken),
            "long_tail": sum(second > 2 * middle for second in taken),
            "noisy": deviation(taken) > 0.05 * middle,
        }
    if found["failure"]:
        result["failure"] = found["failure"]
    return result

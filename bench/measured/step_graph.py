"""Graphs in the form emplace-graph v1, op by op, and placements of their stages."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tables import run_program

BYTES = {"f16": 2, "f32": 4, "i64": 8, "bool": 1}
STATE = ("Parameter", "OptimizerState", "Input")
Tensor = tuple[str, Sequence[int]]


class StepGraph:
    """A training step. Ops are added in the order of issue; `part` and `phase` are those of the next ones."""

    def __init__(self, name: str, **meta: Any) -> None:
        self.ops: list[dict[str, Any]] = []
        self.name, self.meta = name, {"kind": "training", **meta}
        self.part, self.phase = "", "forward"
        self._names: dict[str, int] = {}

    def add(self, name: str, kind: str, inputs: Iterable[Any], *outputs: Tensor, **fields: Any) -> int:
        """The number of an op. Inputs are numbers of ops, or pairs with the number of an output."""
        full = f"{self.part}.{name}"
        uses = self._names[full] = self._names.get(full, 0) + 1
        is_state = kind in STATE
        size = sum(BYTES[dtype] * math.prod(shape) for dtype, shape in outputs)
        self.ops.append(
            {
                "id": len(self.ops),
                "name": full if uses == 1 else f"{full}_{uses}",
                "type": kind,
                "inputs": [list(one) if isinstance(one, tuple) else [one, 0] for one in inputs],
                "outputs": [{"dtype": dtype, "shape": list(shape)} for dtype, shape in outputs],
                "attrs": fields.pop("attrs", {}),
                "flops": 0 if is_state or "measured_us" in fields else None,
                "param_bytes": size if is_state and kind != "Input" else 0,
                "group": self.part,
                "phase": self.phase,
                **fields,
            }
        )
        return len(self.ops) - 1

    def view(self, name: str, source: Any, shape: Sequence[int], dtype: str = "f16") -> int:
        """A tensor that is read in another shape."""
        return self.add(name, f"aten::{name}", [source], (dtype, shape), attrs={"view": True})

    def parts(self) -> list[str]:
        """The parts of all ops, in the order of their first ops."""
        return list(dict.fromkeys(op["group"] for op in self.ops))

    def document(self) -> dict[str, Any]:
        """The graph file."""
        return {
            "format": "emplace-graph v1",
            "name": self.name,
            "source": "bench/measured_strategies.py",
            "meta": self.meta,
            "ops": self.ops,
        }


def even_stages(layers: int, stages: int) -> list[int]:
    """[layers] The stage of each layer, as Megatron divides them."""
    if layers % stages != 0:
        raise ValueError(f"{layers} layers are no multiple of {stages} stages")
    return [layer * stages // layers for layer in range(layers)]


def evaluate(
    program: str, graph: StepGraph, device_of: dict[str, str], machine: str, micro_batches: int
) -> dict[str, Any]:
    """What `emplace evaluate` answers for parts on devices. `machine` is the text of a device file."""
    with tempfile.TemporaryDirectory() as folder:
        graph_file, plan, devices = (Path(folder, name) for name in ("graph.json", "plan.json", "m.toml"))
        graph_file.write_text(json.dumps(graph.document()), encoding="utf-8")
        devices.write_text(machine, encoding="utf-8")
        placement = {
            "format": "emplace-placement",
            "version": 1,
            "graph": graph.name,
            "graph_sha256": run_program(program, ["inspect", str(graph_file)])["graph_sha256"],
            "devices": list(dict.fromkeys(device_of.values())),
            "ops": {op["name"]: device_of[op["group"]] for op in graph.ops},
        }
        plan.write_text(json.dumps(placement), encoding="utf-8")
        words = ["evaluate", str(graph_file), str(plan), "--devices", str(devices)]
        return run_program(program, [*words, "--micro-batches", str(micro_batches)], (0, 3))

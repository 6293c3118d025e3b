"""Kernels that were held out: what the program predicts for them, beside the measurement and beside the fit.

A row becomes an op of a graph whose kernel has the row's sizes; the program times all of a device at once.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from costs.grid import Error, error_of
from costs.rows import Rows
from program import Program

DTYPES = {"fp32": "f32", "fp16": "f16", "bf16": "bf16", "fp8": "f8", "int8": "i8", "tf32": "f32"}
BYTES = {"f32": 4, "f16": 2, "bf16": 2, "f8": 1, "i8": 1}
#: Rows of one kind on one device; drawn evenly from those held out.
SAMPLE = 150


@dataclass
class Ops:
    """The ops of a graph under construction."""

    float32: str = "ieee"  # What its products and convolutions in float32 are: "ieee" or "tf32".
    ops: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self,
        kind: str,
        inputs: Sequence[int],
        dtype: str,
        *shapes: Sequence[int],
        attributes: Mapping[str, Any] | None = None,
    ) -> int:
        """Its number. The program counts the work of ops with inputs; others have none."""
        size = BYTES[dtype] * math.prod(shapes[0]) if kind == "Parameter" else 0
        op = {
            "id": len(self.ops),
            "name": f"op{len(self.ops)}",
            "type": kind,
            "inputs": [[producer, 0] for producer in inputs],
            "outputs": [{"dtype": dtype, "shape": list(shape)} for shape in shapes],
            "attrs": dict(attributes or {}),
            "flops": None if inputs else 0,
            "param_bytes": size,
        }
        self.ops.append(op)
        return len(self.ops) - 1

    def save(self, path: Path) -> None:
        meta = {"float32": {"products": self.float32, "convolutions": self.float32}}
        head = {"format": "emplace-graph v1", "name": path.stem, "source": "bench/costs", "meta": meta}
        path.write_text(json.dumps({**head, "ops": self.ops}))


def add_product(ops: Ops, dtype: str, m: int, n: int, k: int) -> int:
    """The number of an op [m, k] [k, n]."""
    x, w = ops.add("Input", [], dtype, [m, k]), ops.add("Parameter", [], dtype, [k, n])
    return ops.add("aten::mm", [x, w], "bf16" if BYTES[dtype] == 1 else dtype, [m, n])


def _batch_product(ops: Ops, dtype: str, batch: int, m: int, n: int, k: int) -> int:
    x, y = ops.add("Input", [], dtype, [batch, m, k]), ops.add("Input", [], dtype, [batch, k, n])
    return ops.add("aten::bmm", [x, y], dtype, [batch, m, n])


def _attention(
    ops: Ops,
    query: str,
    cache: str,
    heads: int,
    key_heads: int,
    queries: int,
    keys: int,
    size: int,
    causal: bool,
) -> int:
    q = ops.add("Input", [], query, [1, heads, queries, size])
    k, v = (ops.add("Input", [], cache, [1, key_heads, keys, size]) for _ in "kv")
    attributes = {"is_causal": True} if causal else {}
    shape = [1, heads, queries, size]
    return ops.add("aten::scaled_dot_product_attention", [q, k, v], query, shape, attributes=attributes)


def _convolution(ops: Ops, dtype: str, pixels: int, n: int, k: int) -> int:
    """One of 3 x 3 with a margin of 1 over square images, as large as they can be."""
    edge = max(edge for edge in range(1, math.isqrt(pixels) + 1) if pixels % (edge * edge) == 0)
    batch, channels = pixels // edge**2, k // 9
    x = ops.add("Input", [], dtype, [batch, channels, edge, edge])
    w = ops.add("Parameter", [], dtype, [n, channels, 3, 3])
    return ops.add("aten::convolution", [x, w], dtype, [batch, n, edge, edge])


def _rows_of(ops: Ops, dtype: str, kernel: str, height: int, width: int) -> int:
    x = ops.add("Input", [], dtype, [height, width])
    if kernel == "softmax":
        return ops.add("aten::_softmax", [x], dtype, [height, width], attributes={"dim": -1})
    w, b = (ops.add("Parameter", [], dtype, [width]) for _ in "wb")
    shapes = [height, width], [height, 1], [height, 1]
    return ops.add("aten::native_layer_norm", [x, w, b], dtype, *shapes)


def _add_row(ops: Ops, kernel: str, arithmetic: str, at: Sequence[float], traffic: float) -> int | None:
    """The op whose kernel has these sizes and this traffic [bytes]; nothing if no op of a graph would."""
    dtype, sizes = DTYPES[arithmetic], [round(size) for size in at]
    if kernel == "product":
        return add_product(ops, dtype, sizes[0], sizes[1], sizes[2])
    if kernel == "batch_product":
        return _batch_product(ops, dtype, *sizes)
    if kernel == "convolution":
        return _convolution(ops, dtype, *sizes)
    if kernel in ("softmax", "norm"):
        return _rows_of(ops, dtype, kernel, sizes[0], sizes[1])
    if kernel == "elementwise":
        x = ops.add("Input", [], dtype, [round(traffic / 2 / BYTES[dtype])])
        return ops.add("aten::relu", [x], dtype, ops.ops[x]["outputs"][0]["shape"])
    if kernel in ("prefill", "encoder"):
        heads, tokens, size = sizes[:3]
        key_heads = round(traffic / (2 * BYTES[dtype] * tokens * size)) - heads
        return _attention(ops, dtype, dtype, heads, key_heads, tokens, tokens, size, kernel == "prefill")
    if kernel == "decode":
        key_heads, elements, group = sizes[:3]
        queries = round((traffic - 2 * BYTES[dtype] * elements) / (2 * BYTES["bf16"]))
        size = queries // (key_heads * group)
        keys = elements // (key_heads * size)
        return _attention(ops, "bf16", dtype, key_heads * group, key_heads, 1, keys, size, False)
    return None


@dataclass(frozen=True)
class KernelRow:
    """One kind of kernel on one device: errors of the program on rows of the sample."""

    device: str
    kernel: str
    arithmetic: str
    version_1: Error | None
    version_2: Error | None
    agreement: float | None  # The largest |program / fit - 1| but for one row in a hundred.


def _sample(rows: Rows) -> Rows:
    """Some of the rows that are held out; no prompts of one token, which the program counts as decoding."""
    prompts = rows.kernel in ("prefill", "encoder")
    held = np.flatnonzero(rows.held & (rows.at[:, 1] > 1 if prompts else True))
    chosen = np.zeros(len(rows), dtype=bool)
    chosen[held[:: max(1, math.ceil(len(held) / SAMPLE))]] = True
    return rows.where(chosen)


def measure(
    program: Program, all_rows: Iterable[Rows], fitted: Mapping[tuple[str, str, str], Any], folder: Path
) -> list[KernelRow]:
    """Asks the program for a sample of the held-out rows.

    `fitted`: what the fit predicts for rows of a device, a kernel and an arithmetic.
    """
    by_device: dict[str, list[Rows]] = defaultdict(list)
    for rows in all_rows:
        # Programs without version 2 have no word for eight bits of floating point.
        if rows.arithmetic in DTYPES and (program.has_version_2 or rows.arithmetic != "fp8"):
            by_device[rows.device].append(_sample(rows))
    found = []
    for device, kinds in sorted(by_device.items()):
        ops, names = Ops(), []
        for rows in kinds:
            added = [
                _add_row(ops, rows.kernel, rows.arithmetic, at, traffic)
                for at, traffic in zip(rows.at, rows.bytes, strict=True)
            ]
            names.append([f"op{op}" for op in added if op is not None])
        graph = folder / f"kernels-{device}.json"
        ops.save(graph)
        times = {version: program.op_times(graph, device, version) for version in (1, 2)}
        print(f"{device}: {sum(map(len, names))} kernels", file=sys.stderr)
        for rows, mine in zip(kinds, names, strict=True):
            if mine:
                found.append(_row(rows, mine, times, fitted))
    return found


def _row(
    rows: Rows,
    names: Sequence[str],
    times: Mapping[int, dict[str, float] | None],
    fitted: Mapping[tuple[str, str, str], Any],
) -> KernelRow:
    key = (rows.device, rows.kernel, rows.arithmetic)
    by_version = {}
    for version, found in times.items():
        by_version[version] = None if found is None else np.array([found.get(name, 0.0) for name in names])
    old, new = (None if us is None else error_of(us, rows.us) for us in by_version.values())
    agreement = None
    if by_version[2] is not None and key in fitted:
        agreement = float(np.quantile(np.abs(by_version[2] / fitted[key](rows) - 1), 0.99))
    return KernelRow(*key, old, new, agreement)

"""Products that anyone can check: one of 4096 x 4096 x 4096, and how much faster one GPU is than another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from costs.rows import Rows
from costs.sources import dimension
from kernel_rows import DTYPES, Ops, add_product
from program import Program

EDGE = 4096
EXAMPLES = (
    ("a100_80", "fp32"),
    ("a100_80", "tf32"),
    ("a100_80", "bf16"),
    ("a100_80", "int8"),
    ("h100", "fp32"),
    ("h100", "bf16"),
    ("h100", "fp8"),
    ("l40s", "bf16"),
    ("v100", "fp32"),
    ("v100", "fp16"),
)
#: Pairs are compared with this GPU.
BASE = "v100_pcie_32"
#: Smaller products are launches.
LEAST_FLOPS = 1e10
MOST_ROWS = 300


@dataclass(frozen=True)
class Example:
    """One product on one device, by both versions [ms]."""

    device: str
    arithmetic: str
    measured: float | None
    version_1: float | None
    version_2: float | None


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as BASE a device is in float32 products that were measured on both: medians."""

    device: str
    rows: int
    measured: float
    version_1: float | None
    version_2: float | None


def examples(program: Program, all_rows: Sequence[Rows], folder: Path) -> list[Example]:
    """The examples that the program knows the devices of."""
    found = []
    for device, arithmetic in EXAMPLES:
        if arithmetic == "fp8" and not program.has_version_2:
            continue
        ops = Ops("tf32" if arithmetic == "tf32" else "ieee")
        name = f"op{add_product(ops, DTYPES[arithmetic], EDGE, EDGE, EDGE)}"
        graph = folder / f"example-{arithmetic}.json"
        ops.save(graph)
        times = [program.op_times(graph, device, version) for version in (1, 2)]
        old, new = (us[name] / 1e3 if us else None for us in times)
        found.append(Example(device, arithmetic, _measured(all_rows, device, arithmetic), old, new))
    return found


def _measured(all_rows: Sequence[Rows], device: str, arithmetic: str) -> float | None:
    """The product's measurement [ms], if there is one."""
    for rows in all_rows:
        if (rows.device, rows.kernel, rows.arithmetic) == (device, "product", arithmetic):
            found = rows.us[(rows.at == EDGE).all(axis=1)]
            return float(np.median(found)) / 1e3 if len(found) else None
    return None


def _products(fp32: pd.DataFrame) -> pd.DataFrame:
    """Times [us] of linear layers by (m, n, k), one column a device."""
    table = fp32[fp32.op == "linear"]
    sizes = {name: dimension(table, column) for name, column in (("m", "M"), ("n", "N"), ("k", "K"))}
    sizes["m"] = sizes["m"] * dimension(table, "B")
    table = table.assign(**sizes)
    return table[2 * table.m * table.n * table.k >= LEAST_FLOPS].pivot_table(
        values="us", index=["m", "n", "k"], columns="device", aggfunc="median"
    )


def _predicted(
    program: Program, graph: Path, names: Sequence[str], device: str, version: int
) -> float | None:
    ours, base = (program.op_times(graph, one, version) for one in (device, BASE))
    if ours is None or base is None:
        return None
    return float(np.median([base[name] / ours[name] for name in names]))


def ratios(program: Program, fp32: pd.DataFrame, folder: Path) -> list[Ratio]:
    """Of every device that has products in common with BASE."""
    wide, found = _products(fp32), []
    for device in sorted(set(wide.columns) - {BASE}):
        both = wide[[device, BASE]].dropna()
        both = both.iloc[:: max(1, -(-len(both) // MOST_ROWS))]
        if both.empty:
            continue
        ops = Ops()
        names = [f"op{add_product(ops, 'f32', *map(round, sizes))}" for sizes in both.index]
        graph = folder / f"ratio-{device}.json"
        ops.save(graph)
        measured = float(np.median(both[BASE] / both[device]))
        predicted = [_predicted(program, graph, names, device, version) for version in (1, 2)]
        found.append(Ratio(device, len(both), measured, *predicted))
    return found

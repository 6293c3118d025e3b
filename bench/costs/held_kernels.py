"""Rows of measured kernels, as scripts/costs reads them, and what the fit predicts for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from costs import attention, families, fit, pointwise, products
from costs.rows import Numbers, Rows
from costs.sources import Wheel, download_wheel, read_fp32
from fitted import Fitted

Key = tuple[str, str, str]

#: GPUs that are judged by tables of the others.
LEFT_OUT = ("l40s", "rtxpro6000", "p100_pcie_16")
#: Rows of a device in the fits without these.
POOLED = 6000


@dataclass(frozen=True)
class LeftOut:
    """The error of a GPU by tables that were fitted without any of LEFT_OUT."""

    device: str
    kernel: str
    arithmetic: str
    rows: int
    median: float
    mean: float
    p90: float


def read(wheel_folder: Path, measured: Path) -> tuple[list[Sequence[Rows]], pd.DataFrame]:
    """The rows of every kind of kernel and arithmetic, by device, and the table of FP32 kernels."""
    wheel = Wheel(download_wheel(wheel_folder))
    fp32 = read_fp32(measured / "ops_fp32.csv.gz")
    sets: list[Sequence[Rows]] = [*products.all_rows(wheel, fp32)]
    sets += [attention.all_rows(wheel, kernel, arithmetic) for kernel, arithmetic in attention.FITTED]
    sets += [pointwise.all_rows(fp32, kernel) for kernel in pointwise.AXES]
    return sets, fp32


def _predictor(knots: Sequence[Sequence[float]], entry: Mapping[str, object]) -> Callable[[Rows], Numbers]:
    values = bytes.fromhex(str(entry["values"]))
    fitted = fit.Fitted(float(str(entry["launch_us"])), values, float(str(entry.get("uneven", 0))))
    return lambda rows: fit.predict(rows, knots, fitted)


def predictors(tables: Fitted | None) -> Mapping[Key, Callable[[Rows], Numbers]]:
    """By device, kernel and arithmetic, what the fit predicts [us] for rows with the program's tables."""
    if tables is None:
        return {}
    return {
        (table.of, table.kernel, table.arithmetic): _predictor(tables.knots(table.kernel), table.entry)
        for table in tables.tables
    }


def _judged(rows: Sequence[Rows], knots: Sequence[Sequence[float]]) -> Iterator[LeftOut]:
    """The kinds of one set, each fitted to the devices that stay."""
    others = [one.thinned(POOLED) for one in rows if one.device not in (*LEFT_OUT, *families.INTEL)]
    for one in rows:
        mine = [other for other in others if other.arithmetic == one.arithmetic]
        if one.device not in LEFT_OUT or not mine:
            continue
        fp32 = one.source.startswith("NeuSight")
        uneven = fp32 and one.kernel in ("product", "batch_product")
        launch_us = pointwise.LAUNCH_US if fp32 else None
        error = fit.left_out(one, mine, knots, uneven=uneven, launch_us=launch_us)
        yield LeftOut(one.device, one.kernel, one.arithmetic, error.rows, error.median, error.mean, error.p90)


def judge_left_out(sets: Sequence[Sequence[Rows]]) -> list[LeftOut]:
    """The errors of LEFT_OUT in every kind of kernel that they were measured in."""
    axes = {**products.AXES, **attention.AXES, **pointwise.AXES}
    return [judged for rows in sets if rows for judged in _judged(rows, axes[rows[0].kernel])]

"""Whole models: predicted steps beside the measured ones."""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labels import Label, doubts, is_suspect, read_all
from program import Program

#: Folders of measured devices: names in the catalogue.
DEVICES = {
    "AMD_Instinct_MI100": "mi100",
    "AMD_Instinct_MI210": "mi210",
    "NVIDIA_A100-PCIE-40GB": "a100_pcie_40",
    "NVIDIA_A100_80GB_PCIe": "a100_pcie_80",
    "NVIDIA_H100_80GB_HBM3": "h100",
    "Tesla_P100-PCIE-16GB": "p100_pcie_16",
    "Tesla_T4": "t4",
    "Tesla_V100-PCIE-32GB": "v100_pcie_32",
}
TRACER = Path(__file__).with_name("trace_models.py")


@dataclass(frozen=True)
class Row:
    """One model on one device. Times in ms."""

    device: str
    graph: str
    measured: float
    nodes: float  # Sum of the measured times of its nodes.
    suspect: bool  # Whether the label contradicts itself.
    doubts: Sequence[str]  # All that it contradicts.
    fitted: bool  # Whether constants may have been fitted to it.
    version_1: float | None
    predicted: float | None  # By version 2; nothing if the program has only version 1.
    stated: float | None  # The error that the program states, as a share of its prediction.
    sources: dict[str, float] | None  # Shares of the time by source of the costs.

    @property
    def amd(self) -> bool:
        return self.device.startswith("mi")

    def value(self, version: int) -> float | None:
        """The prediction of a version [ms]."""
        return self.version_1 if version == 1 else self.predicted

    def error(self, version: int) -> float:
        """Of the prediction of a version, which exists, as a share of what was measured."""
        value = self.value(version)
        assert value is not None
        return value / self.measured - 1


def make_graphs(folder: Path, names: Iterable[str], python: str, program: Path) -> None:
    """Traces the models whose graphs the folder lacks."""
    missing = sorted({name for name in names if not (folder / f"{name}.json.gz").exists()})
    if missing:
        package = Path(__file__).parents[2] / "python"
        variables = {**os.environ, "PYTHONPATH": str(package), "EMPLACE_PROGRAM": str(program.resolve())}
        command = [python, str(TRACER), "--out", str(folder), *missing]
        subprocess.run(command, check=True, env=variables)


def _predicted(program: Program, label: Label, graph: Path, fitted: bool, texts: Sequence[str]) -> Row:
    device = DEVICES[label.device]
    old, new = program.step(graph, device, 1), program.step(graph, device, 2)
    costs: dict[str, Any] = new["costs"] if new else {}
    return Row(
        device,
        label.graph,
        label.step,
        label.sum_of_nodes(),
        is_suspect(label),
        texts,
        fitted,
        1e3 * old["measured"]["step_time_s"] if old else None,
        1e3 * new["measured"]["step_time_s"] if new else None,
        costs.get("error"),
        costs.get("sources"),
    )


def measure(program: Program, root: Path, graphs: Path, python: str) -> list[Row]:
    """All labels, in the bytewise order of their paths."""
    labels = read_all(root)
    make_graphs(graphs, (label.graph for label in labels), python, program.path)
    texts, rows = doubts(labels), []
    for index, label in enumerate(labels):
        graph = graphs / f"{label.graph}.json.gz"
        rows.append(_predicted(program, label, graph, index % 5 != 0, texts.get(label.key, [])))
        print(f"{label.key}: measured {label.step:.1f} ms", file=sys.stderr)
    return rows


@dataclass(frozen=True)
class Summary:
    """Errors of some rows, and how many measurements are within the error that the program states."""

    rows: int
    median: float
    mean: float
    worst: float
    within: int


def summary(
    rows: Iterable[Row], version: int, keep: Callable[[Row], bool] = lambda row: True
) -> Summary | None:
    """Of the rows that are kept and predicted; nothing if there is none."""
    kept = [row for row in rows if keep(row) and row.value(version) is not None]
    errors = [abs(row.error(version)) for row in kept]
    if not errors:
        return None
    return Summary(
        len(errors),
        statistics.median(errors),
        statistics.mean(errors),
        max(errors),
        sum(is_within(row) for row in kept) if version == 2 else 0,
    )


def is_within(row: Row) -> bool:
    """Whether what was measured is within the stated error of version 2."""
    if row.predicted is None or row.stated is None:
        return False
    return abs(row.measured - row.predicted) <= row.stated * row.predicted


@dataclass(frozen=True)
class Order:
    """Pairs of devices whose measured steps of one model differ by more than a tenth."""

    right: int
    wrong: list[tuple[Row, Row]]


def order(rows: Sequence[Row], version: int, keep: Callable[[Row], bool] = lambda row: True) -> Order:
    """Whether a version puts each pair of devices in the measured order."""
    right, wrong = 0, []
    kept = [row for row in rows if keep(row) and row.value(version) is not None]
    for a, b in itertools.combinations(kept, 2):
        fast, slow = sorted((a, b), key=lambda row: row.measured)
        if a.graph != b.graph or slow.measured <= 1.1 * fast.measured:
            continue
        first, second = fast.value(version), slow.value(version)
        assert first is not None and second is not None
        if first < second:
            right += 1
        else:
            wrong.append((fast, slow))
    return Order(right, wrong)

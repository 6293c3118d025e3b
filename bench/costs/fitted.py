"""The fitted tables of the program, as placement/costs/fitted.toml has them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costs.grid import Error, Knots

#: Kinds without axes of their own: kinds whose axes they have.
SHARED = {"convolution": "product", "norm": "softmax", "encoder": "prefill"}


@dataclass(frozen=True)
class FittedTable:
    """One table: a device or a family, a kind of kernel, an arithmetic, and its error."""

    of: str
    kernel: str
    arithmetic: str
    error: Error
    source: str
    entry: Mapping[str, Any]  # All keys of the file.

    @property
    def key(self) -> tuple[str, str, str]:
        return self.of, self.kernel, self.arithmetic

    @property
    def family(self) -> bool:
        return self.of.startswith("family:")


@dataclass(frozen=True)
class Fitted:
    """The file."""

    axes: Mapping[str, Knots]
    tables: list[FittedTable]

    def knots(self, kernel: str) -> Knots:
        """The knots of a kind of kernel; kinds that are alike share them."""
        return self.axes[kernel if kernel in self.axes else SHARED.get(kernel, "elementwise")]


def read(path: Path) -> Fitted | None:
    """The file; nothing if it is not there, as before version 2."""
    if not path.exists():
        return None
    found = tomllib.loads(path.read_text())
    axes = {
        entry["kernel"]: [[float(mark) for mark in marks.split()] for marks in entry["knots"]]
        for entry in found["axes"]
    }
    tables = [
        FittedTable(
            entry["of"],
            entry["kernel"],
            entry["arithmetic"],
            Error(entry["median"], entry["mean"], entry["p90"], entry["rows"]),
            entry["source"],
            entry,
        )
        for entry in found["table"]
    ]
    return Fitted(axes, tables)

"""A measured step beside its prediction, and tables of their errors."""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """One step. Errors are predicted / measured - 1; `groups` are the columns that tables may group by."""

    name: str
    measured: float
    predicted: float
    groups: dict[str, str] = field(default_factory=dict)

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """Mean, median and worst |error|, and the mean with its sign."""
    sizes = [abs(row.error) for row in rows]
    return {
        "mean": statistics.fmean(sizes),
        "median": statistics.median(sizes),
        "worst": max(sizes),
        "bias": statistics.fmean(row.error for row in rows),
    }


def line(cells: Iterable[object]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def table(title: str, sets: Iterable[tuple[str, Sequence[Row]]]) -> str:
    """A Markdown table with a line for each set of rows that has any."""
    lines = [line([title, "rows", "mean", "median", "worst", "bias"]), "|---|--:|--:|--:|--:|--:|"]
    for name, rows in sets:
        if rows:
            s = summary(rows)
            sizes = [f"{s[key]:.1%}" for key in ("mean", "median", "worst")]
            lines.append(line([name, len(rows), *sizes, f"{s['bias']:+.1%}"]))
    return "\n".join(lines)


def grouped(rows: Iterable[Row], by: str) -> list[tuple[str, list[Row]]]:
    """The rows by a column, in the order of its values."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.groups[by]].append(row)

    def order(item: tuple[str, list[Row]]) -> tuple[float, str]:
        number = item[0].split()[-1]
        return (float(number) if number.isdigit() else 0.0, item[0])

    return sorted(groups.items(), key=order)


def interpolated(points: Sequence[tuple[float, float]], at: float) -> float:
    """A value between the two nearest points; below the first it is that of the first, beyond the last in
    proportion to it."""
    if at <= points[0][0]:
        return points[0][1]
    for (left, low), (right, high) in itertools.pairwise(points):
        if at <= right:
            return low + (high - low) * (at - left) / (right - left)
    return points[-1][1] * at / points[-1][0]

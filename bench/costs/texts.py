"""Numbers and tables of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costs.grid import Error
from tables import markdown

NONE = "–"


def percent(value: float | None, places: int = 1) -> str:
    return NONE if value is None else f"{100 * value:.{places}f} %"


def signed(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:+.1f} %"


def number(value: float | None) -> str:
    """Three digits and more, as times in ms need them."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def three(error: Error | None) -> list[str]:
    """Median, mean and p90."""
    return [NONE] * 3 if error is None else [percent(error.median), percent(error.mean), percent(error.p90)]


def judged_table(rows: Sequence[dict[str, Any]], keys: Sequence[str]) -> str:
    """Rows that the fit judged, worst first."""
    names = ("median", "mean", "p90")
    cells = [
        [*(str(row[key]) for key in keys), f"{row['rows']:,}", *(percent(row[name]) for name in names)]
        for row in sorted(rows, key=lambda row: -row["median"])
    ]
    return markdown([*keys, "rows", *names], cells, len(keys))

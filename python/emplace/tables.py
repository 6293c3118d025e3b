"""Tables as text and as HTML, and the units of their numbers."""

from __future__ import annotations

import html
from collections.abc import Sequence


def seconds_text(seconds: float | None) -> str:
    """
    >>> seconds_text(0.0021), seconds_text(3), seconds_text(4.5e-5), seconds_text(None)
    ('2.10 ms', '3.00 s', '45.0 us', '-')
    """
    if seconds is None:
        return "-"
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(seconds) >= factor:
            return (
                f"{seconds / factor:.3g} {unit}"
                if seconds / factor >= 100
                else _three(seconds / factor) + f" {unit}"
            )
    return f"{seconds * 1e9:.0f} ns"


def bytes_text(count: float) -> str:
    """
    >>> bytes_text(512), bytes_text(3 * 2**30)
    ('512 B', '3.00 GiB')
    """
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if abs(count) >= 1024**power:
            return f"{count / 1024**power:.2f} {unit}"
    return f"{count:.0f} B"


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, the first one to the left and the others to the right."""
    table = [list(head), *[list(row) for row in rows]]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in table
    )


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as HTML; every cell is escaped."""

    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return f"<table><thead>{row(head, 'th')}</thead><tbody>{body}</tbody></table>"


def _three(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"

"""The notebook of the examples: its cells run from the top, and its results draw themselves."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "tour.ipynb"


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell; returns the value of its last line if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_the_cells_run_and_draw_their_results() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in code), "committed without outputs"
    names: dict[str, Any] = {}
    shown = [run_cell("".join(cell["source"]), names) for cell in code]
    drawn = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert len(drawn) == 4, "the comparison, the placement, the explanation and the report"
    assert all("<" in html for html in drawn)
    assert "<svg" in drawn[-1], "the report draws the schedule"
    assert names["placement"].step_time >= names["placement"].bound > 0

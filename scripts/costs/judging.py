"""Errors that no table has: on devices that are left out whole, by arithmetic, and of a ratio of devices."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from costs.families import INTEL, LARGE_CACHE
from costs.fit import POOLED, Fits, Fitted, device_fit, fit, launch_of, predict
from costs.grid import Error, Knots, error_of
from costs.pointwise import LAUNCH_US
from costs.products import AXES, NEUSIGHT, SIBLINGS
from costs.rows import Rows

UNSEEN = (*LARGE_CACHE, "p100_pcie_16")  # All at once: none of them is in a fit by which another is judged.
LARGE_FLOPS = 1e11


def _of_neusight(rows: Rows) -> bool:
    return rows.source.startswith(NEUSIGHT)


def judged_fit(rows: Rows, among: Sequence[Rows]) -> tuple[Fitted, Knots]:
    """The table of a device from its rows that are not held out, as device_table judges it."""
    knots = AXES[rows.kernel]
    if not _of_neusight(rows):
        return device_fit(rows.where(~rows.held), knots, launch_us=launch_of([rows])), knots
    name = SIBLINGS.get(rows.device)
    sibling = next((one for one in among if one.device == name and one.source == rows.source), None)
    sibling = None if sibling is None else sibling.where(~sibling.held)
    uneven = rows.kernel != "convolution"
    fitted = device_fit(rows.where(~rows.held), knots, uneven=uneven, sibling=sibling, launch_us=LAUNCH_US)
    return fitted, knots


def unseen(fits: Fits) -> list[tuple[Rows, Error]]:
    """Each device of UNSEEN by a family of the devices that are not in UNSEEN."""
    found = []
    for rows in fits.rows:
        if rows.device not in UNSEEN:
            continue
        others = [
            one.thinned(POOLED)
            for one in fits.rows
            if (one.kernel, one.arithmetic) == (rows.kernel, rows.arithmetic)
            and one.device not in UNSEEN
            and one.device not in INTEL
        ]
        launch = LAUNCH_US if _of_neusight(rows) else launch_of(others)
        uneven = _of_neusight(rows) and rows.kernel != "convolution"
        shares = [POOLED / len(one) for one in others]
        fitted = fit(others, AXES[rows.kernel], launch, shares=shares, uneven=uneven)
        found.append((rows, error_of(predict(rows, AXES[rows.kernel], fitted), rows.us)))
    return found


def by_arithmetic(fits: Fits) -> dict[tuple[str, str], Error]:
    """Held-out rows of all devices together, by kernel and arithmetic."""
    wrong: dict[tuple[str, str], list[tuple[np.ndarray, np.ndarray]]] = {}
    for rows in fits.rows:
        fitted, knots = judged_fit(rows, fits.rows)
        held = rows.where(rows.held)
        wrong.setdefault((rows.kernel, rows.arithmetic), []).append((predict(held, knots, fitted), held.us))
    return {
        key: error_of(*(np.concatenate([pair[side] for pair in pairs]) for side in (0, 1)))
        for key, pairs in wrong.items()
    }


def ratio_of(fits: Fits, slow: str, fast: str) -> tuple[float, float, int]:
    """Median of slow / fast in large float32 products of the same sizes: measured, predicted, rows."""
    tables = []
    for device in (slow, fast):
        rows = next(
            one
            for one in fits.rows
            if (one.device, one.kernel, one.arithmetic) == (device, "product", "fp32")
        )
        fitted, knots = judged_fit(rows, fits.rows)
        table = pd.DataFrame(rows.at, columns=["m", "n", "k"])
        tables.append(table.assign(us=rows.us, predicted=predict(rows, knots, fitted)))
    both = tables[0].merge(tables[1], on=["m", "n", "k"])
    both = both[2 * both.m * both.n * both.k > LARGE_FLOPS]
    measured, predicted = both.us_x / both.us_y, both.predicted_x / both.predicted_y
    return float(measured.median()), float(predicted.median()), len(both)

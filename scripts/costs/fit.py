"""Fits tables to rows: one a device, one a family, each judged on rows or devices that it has not seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix, hstack

from costs.devices import DEVICES
from costs.grid import (
    Error,
    Knots,
    base_us,
    error_of,
    from_bytes,
    hat,
    robust_fit,
    to_bytes,
)
from costs.rows import Numbers, Rows

SMOOTH = 0.1  # Pull of neighbouring knots, in rows.
SIBLING = 0.02  # Weight of a row of a sibling: it decides where the device has no rows.
POOLED = 12_000  # Rows of a device in the fit of a family.


@dataclass(frozen=True)
class Fitted:
    """What is fitted: the numbers of a table in the form in which the program has them."""

    launch_us: float
    values: bytes
    uneven: float = 0  # Added to r of uneven products.


@dataclass(frozen=True)
class Table:
    """One [[table]] of fitted.toml."""

    of: str  # Device of the catalogue, or "family:...".
    kernel: str
    arithmetic: str
    launch_us: float
    error: Error  # That of rows (a device) or devices (a family) that the table was not fitted to.
    source: str
    values: bytes
    uneven: float = 0
    parts: Mapping[str, Error] = field(
        default_factory=dict
    )  # The error on each device that was left out of a family.


@dataclass(frozen=True)
class Fits:
    """What a module has fitted: the knots of its kernels, its tables, and their rows."""

    axes: dict[str, Knots]
    tables: list[Table]
    rows: list[Rows]


def launch_of(rows: Sequence[Rows]) -> float:
    """The time of a launch [us]: the shortest kernels, median over devices, rounded as the file has it."""
    return round(float(np.median([np.quantile(one.us, 0.01) for one in rows])), 2)


def predict(rows: Rows, knots: Knots, fitted: Fitted) -> Numbers:
    """Times [us] as the program computes them."""
    residual = hat(rows.at, knots) @ from_bytes(fitted.values)
    if fitted.uneven:
        residual = residual + fitted.uneven * rows.uneven
    return np.asarray(base_us(DEVICES[rows.device], rows, fitted.launch_us) * np.exp(residual))


def fit(
    rows: Sequence[Rows],
    knots: Knots,
    launch_us: float,
    *,
    shares: Sequence[float] | None = None,
    smooth: float = SMOOTH,
    uneven: bool = False,
) -> Fitted:
    """The table of all these rows. `shares`: weights of a row of each; by default devices count alike."""
    if shares is None:
        mean = sum(len(one) for one in rows) / len(rows)
        shares = [mean / len(one) for one in rows]
    weights = hat(np.concatenate([one.at for one in rows]), knots)
    if uneven:
        flags = np.concatenate([one.uneven for one in rows])
        weights = hstack([weights, csr_matrix(flags[:, None].astype(np.float64))]).tocsr()
    bases = [base_us(DEVICES[one.device], one, launch_us) for one in rows]
    residual = np.concatenate([np.log(one.us / base) for one, base in zip(rows, bases)])
    share = np.concatenate([np.full(len(one), weight) for one, weight in zip(rows, shares)])
    values = robust_fit(weights, residual, knots, share=share, smooth=smooth)
    added = round(float(values[-1]), 2) if uneven else 0
    return Fitted(launch_us, to_bytes(values[:-1] if uneven else values), added)


def device_fit(
    rows: Rows,
    knots: Knots,
    smooth: float = SMOOTH,
    *,
    uneven: bool = False,
    sibling: Rows | None = None,
    launch_us: float | None = None,
) -> Fitted:
    """Fits one device.

    `sibling`: rows of a device alike, for knots without rows. `launch_us`: the time of a launch; without it,
    that of the shortest rows.
    """
    more = [] if sibling is None else [sibling]
    launch = launch_of([rows]) if launch_us is None else launch_us
    shares = [1.0] + [SIBLING] * len(more)
    return fit([rows, *more], knots, launch, shares=shares, smooth=smooth, uneven=uneven)


def device_table(
    rows: Rows,
    knots: Knots,
    smooth: float = SMOOTH,
    *,
    uneven: bool = False,
    sibling: Rows | None = None,
    launch_us: float | None = None,
) -> Table:
    """The table of a device: its error is that of a fit without the held-out rows, its values fit all.

    For the options see device_fit.
    """
    launch = launch_of([rows]) if launch_us is None else launch_us
    seen = sibling.where(~sibling.held) if sibling is not None else None
    judged = device_fit(rows.where(~rows.held), knots, smooth, uneven=uneven, sibling=seen, launch_us=launch)
    unseen = rows.where(rows.held)
    error = error_of(predict(unseen, knots, judged), unseen.us)
    shipped = device_fit(rows, knots, smooth, uneven=uneven, sibling=sibling, launch_us=launch)
    return _table(rows.device, rows, shipped, error, rows.source)


def left_out(
    judged: Rows,
    others: Sequence[Rows],
    knots: Knots,
    smooth: float = SMOOTH,
    *,
    uneven: bool = False,
    shares: Sequence[float] | None = None,
    launch_us: float | None = None,
) -> Error:
    """The error on a device of a family that was fitted to others."""
    launch = launch_of(others) if launch_us is None else launch_us
    fitted = fit(others, knots, launch, shares=shares, smooth=smooth, uneven=uneven)
    return error_of(predict(judged, knots, fitted), judged.us)


def family_table(
    family: str,
    rows: Sequence[Rows],
    knots: Knots,
    smooth: float = SMOOTH,
    *,
    uneven: bool = False,
    weights: Mapping[str, float] | None = None,
    launch_us: float | None = None,
) -> Table:
    """The table of a family of devices: its error is the mean of what leaving each of them out had.

    `weights`: how much a device counts, 1 by default. Only those of at least average weight are left out.
    """
    weights = weights or {}
    rows = [one.thinned(POOLED) for one in rows]
    weight = {one.device: weights.get(one.device, 1.0) for one in rows}
    share = {one.device: weight[one.device] * POOLED / len(one) for one in rows}
    average = sum(weight.values()) / len(weight)
    parts = {}
    for one in rows:
        if weight[one.device] < average * 0.999:
            continue
        others = [other for other in rows if other.device != one.device]
        shares = [share[other.device] for other in others]
        parts[one.device] = left_out(
            one, others, knots, smooth, uneven=uneven, shares=shares, launch_us=launch_us
        )
    launch = launch_of(rows) if launch_us is None else launch_us
    shares = [share[one.device] for one in rows]
    fitted = fit(rows, knots, launch, shares=shares, smooth=smooth, uneven=uneven)
    source = "; ".join(sorted({one.source for one in rows}))
    return _table(f"family:{family}", rows[0], fitted, mean_of(list(parts.values())), source, parts)


def mean_of(errors: Sequence[Error]) -> Error:
    """The means of errors, and all their rows."""
    return Error(
        float(np.mean([error.median for error in errors])),
        float(np.mean([error.mean for error in errors])),
        float(np.mean([error.p90 for error in errors])),
        sum(error.rows for error in errors),
    )


def _table(
    of: str, rows: Rows, fitted: Fitted, error: Error, source: str, parts: Mapping[str, Error] | None = None
) -> Table:
    return Table(
        of=of,
        kernel=rows.kernel,
        arithmetic=rows.arithmetic,
        launch_us=fitted.launch_us,
        error=error,
        source=source,
        values=fitted.values,
        uneven=fitted.uneven,
        parts=parts or {},
    )

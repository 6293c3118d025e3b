"""Tables of residuals over coordinates: knots, interpolation, and a robust fit of the values at the knots.

    us = (launch + max(flops / peak, memory)) * exp(r(at) + uneven)

`uneven` is one number a table, for products with a size that no tile divides. r is interpolated on log2 of
each coordinate between knots and constant outside of them. The values at the knots are fitted to
log(measured / base) by iteratively reweighted least squares, which tends to the least sum of absolute
residuals, with a weak pull of neighbouring knots towards each other: those without rows follow the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import block_diag, coo_matrix, csr_matrix, diags_array, identity, kron
from scipy.sparse.linalg import splu

from costs.devices import Device
from costs.rows import Numbers, Rows

STEP = 0.02  # One step of a byte in fitted.toml.
ZERO = 128  # The byte of r = 0.
L2_SHARE = 0.6  # Traffic of this share of L2 is half served by it.
L2_SPEED = 3.0  # How much faster L2 is than memory.

Knots = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Error:
    """|predicted / measured - 1| over rows."""

    median: float
    mean: float
    p90: float
    rows: int


def error_of(predicted: Numbers, measured: Numbers) -> Error:
    """The error of predictions."""
    wrong = np.abs(predicted / measured - 1)
    if not len(wrong):
        return Error(float("nan"), float("nan"), float("nan"), 0)
    median, p90 = np.quantile(wrong, [0.5, 0.9])
    return Error(float(median), float(wrong.mean()), float(p90), len(wrong))


def memory_us(device: Device, traffic: Numbers) -> Numbers:
    """Time of memory traffic in bytes; small traffic is served by L2 in part."""
    hit = 1 / (1 + (traffic / (L2_SHARE * device.l2)) ** 2)
    return traffic / device.bandwidth * (1 - hit + hit / L2_SPEED) * 1e6


def base_us(device: Device, rows: Rows, launch_us: float) -> Numbers:
    """The data sheet's time of each row: launch, and work or traffic, whichever takes longer."""
    work = rows.flops / device.peak(rows.arithmetic) * 1e6
    return launch_us + np.maximum(work, memory_us(device, rows.bytes))


def hat(at: Numbers, knots: Knots) -> csr_matrix:
    """Weights of the knots for each row of coordinates: [rows, product of knots], the last axis fastest."""
    columns = np.zeros((len(at), 1), dtype=np.int64)
    weights = np.ones((len(at), 1))
    for axis, marks in enumerate(knots):
        places = np.log2(np.asarray(marks, dtype=np.float64))
        if len(places) == 1:
            continue
        where = np.clip(np.log2(at[:, axis]), places[0], places[-1])
        low = np.clip(np.searchsorted(places, where, side="right") - 1, 0, len(places) - 2)
        share = (where - places[low]) / (places[low + 1] - places[low])
        left = columns * len(places) + low[:, None]
        columns = np.concatenate([left, left + 1], axis=1)
        weights = np.concatenate([weights * (1 - share)[:, None], weights * share[:, None]], axis=1)
    rows = np.repeat(np.arange(len(at)), columns.shape[1])
    shape = (len(at), size_of(knots))
    return coo_matrix((weights.ravel(), (rows, columns.ravel())), shape=shape).tocsr()


def size_of(knots: Knots) -> int:
    """Values of a table."""
    return int(np.prod([len(marks) for marks in knots]))


def smoothness(knots: Knots) -> csr_matrix:
    """Sum over axes of squared differences of neighbouring knots, divided by their distance in log2."""
    total = csr_matrix((size_of(knots), size_of(knots)))
    for axis, marks in enumerate(knots):
        if len(marks) == 1:
            continue
        gaps = np.diff(np.log2(np.asarray(marks, dtype=np.float64)))
        step = diags_array(
            [-np.ones(len(gaps)), np.ones(len(gaps))], offsets=[0, 1], shape=(len(gaps), len(marks))
        )
        one = step.T @ diags_array(1 / np.maximum(gaps, 0.1)) @ step
        before = int(np.prod([len(other) for other in knots[:axis]], initial=1))
        after = int(np.prod([len(other) for other in knots[axis + 1 :]], initial=1))
        total = total + kron(kron(identity(before), one), identity(after))
    return csr_matrix(total)


def robust_fit(
    weights: csr_matrix,
    residual: Numbers,
    knots: Knots,
    *,
    share: Numbers | None = None,
    smooth: float = 0.1,
    rounds: int = 8,
    floor: float = 0.01,
) -> Numbers:
    """The values at the knots whose interpolation misses `residual` least in the sum of absolute values.

    `weights` may have more columns than there are knots: values that are added to rows. `share` weighs rows;
    `smooth` is the pull of neighbours, in rows; residuals below `floor` count as squares.
    """
    share = np.ones(len(residual)) if share is None else share
    more = weights.shape[1] - size_of(knots)
    pull = block_diag([smooth * smoothness(knots), csr_matrix((more, more))]) + 1e-3 * identity(
        weights.shape[1]
    )
    row_weights = share
    values = np.zeros(weights.shape[1])
    for _ in range(rounds):
        scaled = weights.multiply(row_weights[:, None]).tocsr()
        values = splu((weights.T @ scaled + pull).tocsc()).solve(scaled.T @ residual)
        row_weights = share * 0.1 / np.maximum(np.abs(weights @ values - residual), floor)
    return values


def to_bytes(values: Numbers) -> bytes:
    """Values as fitted.toml has them: one byte each."""
    steps = np.round(values / STEP).astype(np.int64) + ZERO
    return bytes(np.clip(steps, 0, 255).astype(np.uint8))


def from_bytes(packed: bytes) -> Numbers:
    """The values as the program reads them."""
    return (np.frombuffer(packed, dtype=np.uint8).astype(np.float64) - ZERO) * STEP

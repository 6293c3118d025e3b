"""Elementwise kernels, softmax and layer norm, from FP32 kernels that were timed one by one from Python.

The clock of such a row starts before Python calls the operator: it shows the host until the kernel
starts, then the kernel, and never less than the host needs for the whole call (24 to 60 us). So

    measured = max(floor, start + kernel)

`floor` is what the operator's smallest tensors take; `start` is the intercept of measured over
bytes of the elementwise operators, a share of their floors that is alike for all operators of a
device. The fit sees the kernel alone, measured - start, of rows above the floor; a kernel without
traffic takes LAUNCH_US.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from costs.fit import Fits, Table, device_table, family_table
from costs.grid import Knots
from costs.rows import Numbers, Rows, is_held
from costs.sources import Wheel, dimension

# Bytes read and written.
ELEMENTWISE: Knots = [[2.0**power for power in (12, 20, 22, 23, 24, 25, 26, 27, 28, 30, 32, 36)]]
# Rows, width. PyTorch's softmax has another kernel above 1024 columns.
ROWS: Knots = [
    [16, 128, 512, 2048, 8192, 32768, 2097152],
    [16, 64, 128, 256, 512, 768, 1024, 1025, 1536, 2048, 4096, 12288],
]
AXES: dict[str, Knots] = {"elementwise": ELEMENTWISE, "softmax": ROWS, "norm": ROWS}

TENSORS = {
    "elementwise": {"add": 3, "mul": 3, "div": 3, "pow": 3, "addu": 2, "mulu": 2, "divu": 2}
    | {"powu": 2, "relu": 2, "gelu": 2, "tanh": 2},
    "softmax": {"softmax": 2},
    "norm": {"ln": 2},
}
LAUNCH_US = 3.0
ABOVE_FLOOR = 1.25  # Rows below this multiple of the floor show the host.
SMALL = 2**16  # Elements of rows that cost the floor on every device.
SOURCE = "NeuSight 6945927, test set"


@dataclass(frozen=True)
class Clock:
    """What the clock of one device's rows shows besides kernels [us], by operator."""

    floor: dict[str, float]
    share: float  # That part of the floor passes until the kernel starts.

    def start(self, op: str) -> float:
        """From the start of the clock to the start of the kernel."""
        return self.share * self.floor[op] - LAUNCH_US


def _elements(table: pd.DataFrame) -> Numbers:
    elements: Numbers = dimension(table, "B") * dimension(table, "H")
    return elements


def _intercept(traffic: Numbers, us: Numbers) -> float:
    """Of us over traffic, rows weighed so that relative misses count alike."""
    columns = np.stack([1 / us, traffic / us], axis=1)
    return float(np.linalg.lstsq(columns, np.ones(len(us)), rcond=None)[0][0])


def clock_of(table: pd.DataFrame) -> Clock:
    """The clock of one device; `table` has its rows of read_fp32."""
    floor, shares = {}, []
    elements = _elements(table)
    for kernel, tensors in TENSORS.items():
        for op, count in tensors.items():
            mine = (table.op == op).to_numpy()
            small = mine & (elements < SMALL)
            if not small.any():
                continue
            us = table.us.to_numpy(np.float64)
            floor[op] = float(np.median(us[small]))
            line = mine & (us > 2 * floor[op]) & (us < 20 * floor[op])
            if kernel == "elementwise":
                shares.append(_intercept(4.0 * count * elements[line], us[line]) / floor[op])
    return Clock(floor, float(np.median(shares)))


def clocks(fp32: pd.DataFrame) -> dict[str, Clock]:
    """By device. One without small rows has the clock of its sister."""
    found = {}
    for device, table in fp32.groupby("device"):
        if (_elements(table[table.op == "add"]) < SMALL).any():
            found[str(device)] = clock_of(table)
    found["a100_pcie_80"] = found["a100_pcie_40"]
    return found


def rows_of(fp32: pd.DataFrame, device: str, kernel: str, clock: Clock) -> Rows:
    """The rows of a device and kind that are above the floor, less the clock's start."""
    tensors = TENSORS[kernel]
    table = fp32[(fp32.device == device) & fp32.op.isin(list(tensors))]
    floor = table.op.map(clock.floor).to_numpy(np.float64)
    table = table[table.us.to_numpy(np.float64) > ABOVE_FLOOR * floor]
    start = table.op.map({op: clock.start(op) for op in clock.floor}).to_numpy(np.float64)
    height, width = dimension(table, "B"), dimension(table, "H")
    traffic = 4 * height * width * table.op.map(tensors).to_numpy(np.float64)
    at = traffic[:, None] if kernel == "elementwise" else np.stack([height, width], axis=1)
    return Rows(
        device=device,
        kernel=kernel,
        arithmetic="fp32",
        at=at,
        flops=np.zeros(len(table)),
        bytes=traffic,
        us=table.us.to_numpy(np.float64) - start,
        held=is_held(f"{op},{dimensions}" for op, dimensions in zip(table.op, table.dimensions)),
        source=SOURCE,
    )


def all_rows(fp32: pd.DataFrame, kernel: str) -> Sequence[Rows]:
    """The rows of every device."""
    return [rows_of(fp32, device, kernel, clock) for device, clock in sorted(clocks(fp32).items())]


def tables(wheel: Wheel, fp32: pd.DataFrame) -> Fits:
    """All tables of this module."""
    found: list[Table] = []
    used: list[Rows] = []
    for kernel, knots in AXES.items():
        rows = all_rows(fp32, kernel)
        found.extend(device_table(one, knots, launch_us=LAUNCH_US) for one in rows)
        family = family_table("nvidia-server", rows, knots, launch_us=LAUNCH_US)
        found.extend([family, replace(family, of="family:nvidia-desktop")])
        used.extend(rows)
    return Fits({kernel: knots for kernel, knots in AXES.items() if kernel != "norm"}, found, used)

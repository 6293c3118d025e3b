"""Products, products of batches, and convolutions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from costs.families import nvidia_families
from costs.fit import Fits, Table, device_table, family_table
from costs.grid import Knots
from costs.pointwise import ABOVE_FLOOR, LAUNCH_US, clocks
from costs.rows import Numbers, Rows, is_held
from costs.sources import SYSTEMS, Wheel, dimension, source_of

# m, n, k of products and convolutions. Pairs such as 128, 129 are steps: one row more is a row of tiles more.
PRODUCT: Knots = [
    [1, 2, 17, 64, 65, 128, 129, 192, 193, 256, 257, 1024, 2048, 4096, 8192, 32768],
    [32, 128, 512, 1024, 2048, 4096, 8192, 16384, 65536],
    [32, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536],
]
# batch, m, n, k.
BATCH_PRODUCT: Knots = [
    [1, 16, 128, 1024, 65536],
    [16, 32, 64, 128, 256, 512, 4096],
    [16, 32, 64, 128, 256, 512, 4096],
    [16, 64, 128, 512, 4096],
]

AXES: dict[str, Knots] = {"product": PRODUCT, "convolution": PRODUCT, "batch_product": BATCH_PRODUCT}

# Word of the package: arithmetic, bytes of an element of x, w and y. Its other words are not used.
DTYPES: dict[str, tuple[str, tuple[float, float, float]]] = {
    "bfloat16": ("bf16", (2, 2, 2)),
    "fp8": ("fp8", (1, 1, 2)),
    "sq": ("int8", (1, 1, 2)),
    "int4_wo": ("w4", (2, 0.5, 2)),
}

SERVERS = ("a100_80", "h100", "h200", "b200", "b300", "gb200", "gb300")

NEUSIGHT = "NeuSight 6945927, ops_fp32"
SIBLINGS = {
    "a100_pcie_80": "a100_pcie_40",
    "h100": "a100_pcie_40",
}  # The first have few sizes, all of them large.


def package_rows(wheel: Wheel, system: str, dtype: str) -> Rows | None:
    """Products of one system: the newest table of vLLM, else of TensorRT-LLM, else of SGLang."""
    for framework in ("vllm", "trtllm", "sglang"):
        for path in reversed(wheel.paths(system, "gemm", framework)):
            table = wheel.table(path)
            table = table[table.gemm_dtype == dtype]
            if len(table):
                return _of_package(table, SYSTEMS[system], dtype, source_of(path))
    return None


def _of_package(table: pd.DataFrame, device: str, dtype: str, source: str) -> Rows:
    arithmetic, (x, w, y) = DTYPES[dtype]
    at = table[["m", "n", "k"]].to_numpy(np.float64)
    m, n, k = at.T
    return Rows(
        device=device,
        kernel="product",
        arithmetic=arithmetic,
        at=at,
        flops=2 * m * n * k,
        bytes=x * m * k + w * k * n + y * m * n,
        us=table.latency.to_numpy(np.float64) * 1e3,
        held=is_held(f"{dtype},{one},{two},{three}" for one, two, three in zip(table.m, table.n, table.k)),
        source=source,
    )


def _of_neusight(
    table: pd.DataFrame, kernel: str, arithmetic: str, at: Numbers, flops: Numbers, traffic: Numbers
) -> Rows:
    op = table.op.iloc[0]
    return Rows(
        device=table.device.iloc[0],
        kernel=kernel,
        arithmetic=arithmetic,
        at=at,
        flops=flops,
        bytes=4 * traffic,
        us=table.us.to_numpy(np.float64),
        held=is_held(f"{op},{dimensions}" for dimensions in table.dimensions),
        source=f"{NEUSIGHT}, {op}",
    )


def linear_rows(table: pd.DataFrame) -> Rows:
    """Linear layers, [m, k] x [k, n]."""
    m, k, n = (dimension(table, name) for name in "MKN")
    return _of_neusight(
        table, "product", "fp32", np.stack([m, n, k], axis=1), 2 * m * n * k, m * k + k * n + m * n
    )


def bmm_rows(table: pd.DataFrame) -> Rows:
    """Products of batches."""
    b, m, k, n = (dimension(table, name) for name in "BMKN")
    at = np.stack([b, m, n, k], axis=1)
    return _of_neusight(table, "batch_product", "fp32", at, 2 * b * m * n * k, b * (m * k + k * n + m * n))


def convolution_rows(table: pd.DataFrame) -> Rows:
    """Convolutions as products: m is batch x pixels of the output, k input channels x kernel.

    Those of the A100 run without TF32: at any channels they are 1.2 times as fast as those of the V100.
    """
    names = ("B", "Input_Channel", "Input_Size", "Kernel_Szie", "Output_Channel", "Padding", "Stride")
    batch, channels, size, kernel, n, padding, stride = (dimension(table, name) for name in names)
    m = batch * (np.floor((size + 2 * padding - kernel) / stride) + 1) ** 2
    k = channels * kernel**2
    traffic = batch * channels * size**2 + k * n + m * n
    return _of_neusight(table, "convolution", "fp32", np.stack([m, n, k], axis=1), 2 * m * n * k, traffic)


READERS = {"linear": linear_rows, "bmm": bmm_rows, "conv": convolution_rows}


def floors_of(fp32: pd.DataFrame, op: str) -> dict[str, float]:
    """Host time of a call by device [us]: that of its smallest kernels, or of its sibling's."""
    own = fp32[fp32.op == op].groupby("device").us.quantile(0.01).to_dict()
    return {device: min(floor, own[SIBLINGS.get(device, device)]) for device, floor in own.items()}


def measured_rows(fp32: pd.DataFrame, op: str) -> dict[str, Rows]:
    """Rows of one op by device, as their clock showed them."""
    return {str(device): READERS[op](table) for device, table in fp32[fp32.op == op].groupby("device")}


def starts_of(fp32: pd.DataFrame, op: str) -> dict[str, float]:
    """What the clock of an op's rows shows before the kernel starts, by device [us]: see pointwise.py."""
    clock = clocks(fp32)
    floors = floors_of(fp32, "bmm" if op == "bmm" else "linear")
    return {
        device: floor * clock.get(device, clock["a100_pcie_40"]).share - LAUNCH_US
        for device, floor in floors.items()
    }


def neusight_rows(fp32: pd.DataFrame, op: str) -> dict[str, Rows]:
    """Rows of one op by device: the kernels alone, of rows above the time that the host needs for a call."""
    floors = floors_of(fp32, "bmm" if op == "bmm" else "linear")
    starts = starts_of(fp32, op)
    found = {}
    for device, rows in measured_rows(fp32, op).items():
        above = rows.where(rows.us > ABOVE_FLOOR * floors[device])
        found[device] = replace(above, us=above.us - starts[device])
    return found


def package_sets(wheel: Wheel, dtype: str) -> list[Rows]:
    """Products of all systems that have the dtype."""
    return [rows for system in SYSTEMS if (rows := package_rows(wheel, system, dtype)) is not None]


def _package_tables(found: Sequence[Rows]) -> Iterator[Table]:
    yield from (device_table(rows, PRODUCT) for rows in found)
    yield from nvidia_families(found, PRODUCT)


def _neusight_tables(rows: Mapping[str, Rows], knots: Knots) -> Iterator[Table]:
    # Of 5,000 convolutions 20 have round sizes: too few for a number of their own.
    uneven = all(own.kernel != "convolution" for own in rows.values())
    for device, own in rows.items():
        sibling = rows.get(SIBLINGS.get(device, ""))
        yield device_table(own, knots, uneven=uneven, sibling=sibling, launch_us=LAUNCH_US)
    table = family_table("nvidia-server", list(rows.values()), knots, uneven=uneven, launch_us=LAUNCH_US)
    yield from (table, replace(table, of="family:nvidia-desktop"))


def all_rows(wheel: Wheel, fp32: pd.DataFrame) -> list[list[Rows]]:
    """The rows of every device, as the fit sees them: one list for each dtype and op."""
    sets = [package_sets(wheel, dtype) for dtype in DTYPES]
    return sets + [list(neusight_rows(fp32, op).values()) for op in READERS]


def tables(wheel: Wheel, fp32: pd.DataFrame) -> Fits:
    """All tables of this module."""
    sets = all_rows(wheel, fp32)
    found: list[Table] = []
    for rows in sets:
        if rows[0].source.startswith(NEUSIGHT):
            found.extend(_neusight_tables({one.device: one for one in rows}, AXES[rows[0].kernel]))
        else:
            found.extend(_package_tables(rows))
    axes = {kernel: knots for kernel, knots in AXES.items() if kernel != "convolution"}
    return Fits(axes, found, [one for rows in sets for one in rows])

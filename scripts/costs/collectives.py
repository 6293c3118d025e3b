"""Collective operations on the GPUs of one host, by bytes and number of GPUs.

    us = (launch + traffic / rate) * exp(r(bytes, gpus))
    traffic = 2 (n - 1) / n * bytes  all_reduce;  (n - 1) / n * bytes  all_gather, reduce_scatter, alltoall

`bytes` is the whole tensor: what every GPU has after an all_reduce or all_gather and before a
reduce_scatter or alltoall. Truth is the newest NCCL table of the package, pooled over the systems
that have the link; vTrain's all-reduce for NVLink 2. A row is held out by the key "op,gpus,bytes".
"""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from costs.grid import Error, Knots, error_of, from_bytes, hat, robust_fit, to_bytes
from costs.rows import Flags, Numbers, is_held
from costs.sources import Wheel, source_of
from costs.writing import knots_text

SIZES = [2.0**power for power in (10, 13, *range(16, 30))]
AXES: dict[str, Knots] = {
    "all_gather": [SIZES, [2, 4, 8]],
    "all_reduce": [SIZES, [2, 3, 4, 5, 6, 7, 8]],
    "alltoall": [SIZES, [2, 4, 8]],
    "reduce_scatter": [SIZES, [2, 4, 8]],
}


@dataclass(frozen=True)
class Link:
    """A link, the systems of the package that have it, and a rate [GB/s] by which r stays small."""

    name: str
    systems: Sequence[str]
    gbs: float
    launch_us: float | None = None  # Without: what the smallest calls take.


LINKS = (
    Link("nvlink3", ("a100_sxm",), 228),
    Link("nvlink4", ("h100_sxm", "h200_sxm"), 348),
    Link("nvlink5", ("b200_sxm", "b300_sxm", "gb200", "gb300"), 700),
    Link("pcie4_x16", ("l40s",), 8),
    Link("pcie5_x16", ("rtx_pro_6000_server",), 25),
)
NVLINK2 = Link("nvlink2", (), 130, launch_us=10)  # The rows start at 1 MiB; the launch is that of NVLink 3.
ELEMENT = {"half": 2, "int8": 1}


@dataclass(frozen=True)
class Collectives:
    """Measured calls of one operation over one link, one entry a row."""

    bytes: Numbers
    gpus: Numbers
    us: Numbers
    held: Flags
    source: str

    def where(self, chosen: Flags) -> "Collectives":
        """The chosen rows."""
        return Collectives(
            self.bytes[chosen], self.gpus[chosen], self.us[chosen], self.held[chosen], self.source
        )


@dataclass(frozen=True)
class CollectiveTable:
    """One [[collective]] of fitted.toml."""

    of: str  # Link of the catalogue.
    kernel: str
    launch_us: float
    gbs: float
    error: Error  # That of rows that the table was not fitted to.
    source: str
    values: bytes


def base_us(op: str, rows: Collectives, launch_us: float, gbs: float) -> Numbers:
    """Time of each row without residual."""
    factor = (2 if op == "all_reduce" else 1) * (rows.gpus - 1) / rows.gpus
    return launch_us + factor * rows.bytes / gbs / 1e3


def _rows(op: str, table: pd.DataFrame, source: str) -> Collectives:
    """`table` has gpus, bytes and us; calls of one size and several dtypes count as one key."""
    held = is_held(f"{op},{gpus},{size}" for gpus, size in zip(table.gpus, table.bytes))
    numbers = [table[name].to_numpy(np.float64) for name in ("bytes", "gpus", "us")]
    return Collectives(numbers[0], numbers[1], numbers[2], held, source)


def package_rows(wheel: Wheel, link: Link, op: str) -> Collectives:
    """One operation over the link, from the newest NCCL table of each system that has it."""
    parts, sources = [], []
    for system in link.systems:
        path = wheel.paths(system, "comm", "nccl")[-1]
        table = wheel.table(path)
        table = table[table.op_name == op]
        size = table.message_size * table.nccl_dtype.map(ELEMENT)  # The table counts elements.
        parts.append(pd.DataFrame({"gpus": table.num_gpus, "bytes": size, "us": table.latency * 1e3}))
        sources.append(source_of(path))
    return _rows(op, pd.concat(parts), "; ".join(sources))


def vtrain_rows(folder: Path, gpu: str) -> Collectives:
    """vTrain's all-reduce of one GPU: the mean of out of place and in place."""
    parts = []
    for gpus in range(2, 9):
        with gzip.open(folder / f"allreduce-{gpu}-{gpus}.txt.gz", "rt") as text:
            table = pd.read_csv(
                text, header=0, names=["bytes", "count", "type", "out", "out_gbs", "in", "in_gbs"]
            )
        parts.append(
            pd.DataFrame({"gpus": gpus, "bytes": table.bytes, "us": (table.out + table["in"]) / 2e3})
        )
    return _rows("all_reduce", pd.concat(parts), f"vTrain, all-reduce, {gpu}")


def predict(op: str, rows: Collectives, launch_us: float, gbs: float, values: bytes) -> Numbers:
    """Times [us] as the program computes them."""
    at = np.stack([rows.bytes, rows.gpus], axis=1)
    us: Numbers = base_us(op, rows, launch_us, gbs) * np.exp(hat(at, AXES[op]) @ from_bytes(values))
    return us


def _fit(op: str, rows: Collectives, launch_us: float, gbs: float) -> bytes:
    at = np.stack([rows.bytes, rows.gpus], axis=1)
    residual = np.log(rows.us / base_us(op, rows, launch_us, gbs))
    return to_bytes(robust_fit(hat(at, AXES[op]), residual, AXES[op], smooth=0.05))


def collective_table(link: Link, op: str, rows: Collectives) -> CollectiveTable:
    """The table of an operation over a link, judged without its held-out rows and fitted to all."""
    launch = round(float(np.quantile(rows.us, 0.02)), 2) if link.launch_us is None else link.launch_us
    seen, unseen = rows.where(~rows.held), rows.where(rows.held)
    error = error_of(predict(op, unseen, launch, link.gbs, _fit(op, seen, launch, link.gbs)), unseen.us)
    return CollectiveTable(
        link.name, op, launch, link.gbs, error, rows.source, _fit(op, rows, launch, link.gbs)
    )


def tables(wheel: Wheel, vtrain: Path) -> list[CollectiveTable]:
    """All tables of this module; `vtrain` is the folder with vTrain's all-reduce."""
    found = [collective_table(link, op, package_rows(wheel, link, op)) for link in LINKS for op in AXES]
    found.append(collective_table(NVLINK2, "all_reduce", vtrain_rows(vtrain, "v100")))
    return found


def collectives_text(tables: Sequence[CollectiveTable]) -> str:
    """Their part of fitted.toml."""
    parts = [f'\n[[collective_axes]]\nkernel = "{op}"\n{knots_text(AXES[op])}' for op in sorted(AXES)]
    for table in sorted(tables, key=lambda table: (table.kernel, table.of)):
        error = table.error
        parts.append(
            f'\n[[collective]]\nof = "{table.of}"\nkernel = "{table.kernel}"\n'
            f"launch_us = {table.launch_us:.2f}\ngbs = {table.gbs:g}\n"
            f"median = {error.median:.4f}\nmean = {error.mean:.4f}\np90 = {error.p90:.4f}\n"
            f"rows = {error.rows}\n"
            f'source = "{table.source}"\nvalues = "{table.values.hex()}"\n'
        )
    return "".join(parts)

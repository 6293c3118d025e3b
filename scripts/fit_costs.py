#!/usr/bin/env python3
"""Fits the tables of the cost model to public measurements and writes placement/costs/fitted.toml.

    usage: scripts/fit_costs.py [--data ../shared/measured-gpus] [--wheel FILE | --cache FOLDER]
                                [--out placement/costs/fitted.toml] [--only MODULE]

Needs numpy, scipy, pandas and pyarrow. Writes the same bytes for the same data. Prints the held-out errors.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from costs import attention, collectives, pointwise, products
from costs.fit import Fits
from costs.grid import Error
from costs.rivals import rivals
from costs.sources import Wheel, download_wheel, read_fp32
from costs.writing import fitted_text

ROOT = Path(__file__).resolve().parent.parent

# Each module has `tables(wheel, fp32)`, which fits all tables of its kernels.
MODULES: dict[str, Callable[[Wheel, pd.DataFrame], Fits]] = {
    "products": products.tables,
    "attention": attention.tables,
    "pointwise": pointwise.tables,
}


def report(label: str, error: Error) -> None:
    """Prints one line with an error."""
    numbers = f"median {error.median:6.1%}  p90 {error.p90:6.1%}  mean {error.mean:6.1%}"
    print(f"{label:43} {error.rows:8} rows  {numbers}")


def main() -> None:
    """Reads, fits, writes."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--data", type=Path, default=ROOT / "../shared/measured-gpus", help="has ops_fp32.csv.gz and vtrain/"
    )
    options.add_argument(
        "--wheel", type=Path, help="the wheel of aiconfigurator-core, instead of fetching it"
    )
    options.add_argument(
        "--cache", type=Path, default=ROOT / "build/fit_costs", help="where pip puts the wheel"
    )
    options.add_argument("--out", type=Path, default=ROOT / "placement/costs/fitted.toml")
    options.add_argument(
        "--only", choices=[*sorted(MODULES), "collectives"], action="append", help="fit these modules only"
    )
    chosen = options.parse_args()
    wanted = chosen.only or [*MODULES, "collectives"]
    wheel = Wheel(chosen.wheel or download_wheel(chosen.cache))
    fp32 = read_fp32(chosen.data / "ops_fp32.csv.gz")
    fits = [module(wheel, fp32) for name, module in MODULES.items() if name in wanted]
    axes = {kernel: knots for one in fits for kernel, knots in one.axes.items()}
    tables = [table for one in fits for table in one.tables]
    links = collectives.tables(wheel, chosen.data / "vtrain") if "collectives" in wanted else []
    compared = rivals([rows for one in fits for rows in one.rows]) if fits else {}
    for table in tables:
        report(f"{table.kernel:14} {table.arithmetic:5} {table.of}", table.error)
    for link in links:
        report(f"{link.kernel:20} {link.of}", link.error)
    for name, error in compared.items():
        report(name, error)
    text = fitted_text(axes, tables, compared) + collectives.collectives_text(links)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(text)
    print(f"{chosen.out}: {len(tables) + len(links)} tables, {len(text)} bytes")


if __name__ == "__main__":
    main()

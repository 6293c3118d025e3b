"""What the fitted tables are compared with: rooflines of data sheets, and the formula of cost version 1."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costs.devices import CATALOGUE, DEVICES
from costs.fit import mean_of
from costs.grid import Error, error_of
from costs.rows import Numbers, Rows

LAUNCH_US = 4.0  # The prior of today's GPUs in the catalogue, for rooflines.


def data_sheet_us(rows: Rows) -> Numbers:
    """Launch, and work at the peak of the arithmetic or traffic at full bandwidth, whichever takes longer."""
    device = DEVICES[rows.device]
    work, traffic = rows.flops / device.peak(rows.arithmetic), rows.bytes / device.bandwidth
    return np.asarray(LAUNCH_US + 1e6 * np.maximum(work, traffic))


def version_1_us(rows: Rows, catalogue: dict[str, Any]) -> Numbers:
    """estimate_us() of the program: one rate for all dtypes, shares of the peaks by family."""
    device = catalogue[rows.device]
    prior = catalogue[f"prior {device['prior']}"]
    peak = device.get("matrix_peak_gflops", device["peak_gflops"]) * 1e9
    share = prior["conv" if rows.kernel == "convolution" else "matmul"]
    bandwidth = device["bandwidth_gbs"] * 1e9 * prior["bandwidth_efficiency"]
    work, traffic = rows.flops / (peak * share), rows.bytes / bandwidth
    return np.asarray(prior["launch_us"] + 1e6 * np.maximum(work, traffic))


def read_version_1(path: Path = CATALOGUE) -> dict[str, Any]:
    """Rows of version 1 by name, and its priors as "prior NAME"."""
    text = tomllib.loads(path.read_text())
    found: dict[str, Any] = {f"prior {prior['family']}": prior for prior in text["prior"]}
    for own in text["device"]:
        found[own["name"]] = {**found.get(own.get("base", ""), {}), **own}
        if "alias" in own:
            found[own["alias"]] = found[own["name"]]
    return found


def rivals(rows: Sequence[Rows]) -> dict[str, Error]:
    """Errors of both on all rows, each set of rows with equal weight."""
    catalogue = read_version_1()
    return {
        "data_sheet": mean_of([error_of(data_sheet_us(one), one.us) for one in rows]),
        "version_1": mean_of([error_of(version_1_us(one, catalogue), one.us) for one in rows]),
    }

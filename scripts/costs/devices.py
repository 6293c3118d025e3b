"""Peaks, bandwidth and L2 of devices: the numbers that the program has, read from its catalogue."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CATALOGUE = Path(__file__).resolve().parents[2] / "placement/machine/catalogue.toml"

# The arithmetic that a device without units for the first uses instead: arithmetic_on() of the program.
FALLBACK = {
    "fp8": "bf16",
    "w4": "fp16",
    "int8": "fp16",
    "bf16": "fp32",
    "fp16": "fp32",
    "tf32": "fp32",
    "fp64": "fp32",
}


@dataclass(frozen=True)
class Device:
    """What the model knows of one device: FLOP/s by arithmetic (dense), bytes/s, bytes."""

    name: str
    family: str
    peaks: dict[str, float]
    bandwidth: float
    l2: float

    def peak(self, arithmetic: str) -> float:
        """FLOP/s of an arithmetic, or of the one that the device uses instead."""
        while arithmetic not in self.peaks:
            arithmetic = FALLBACK[arithmetic]
        return self.peaks[arithmetic]


def read_devices(path: Path = CATALOGUE) -> dict[str, Device]:
    """All GPUs of the catalogue that have peaks of cost version 2, by name and alias."""
    rows: dict[str, dict[str, Any]] = {}
    devices = {}
    for own in tomllib.loads(path.read_text())["device"]:
        base = rows.get(own.get("base", ""), {})
        new = {**base.get("v2", {}), **own.get("v2", {})}
        row = rows[own["name"]] = {**base, **own, "v2": new}
        if "l2_mib" not in new:
            continue
        peaks = {key.removesuffix("_gflops"): new[key] * 1e9 for key in new if key.endswith("_gflops")}
        bandwidth = new.get("bandwidth_gbs", row["bandwidth_gbs"]) * 1e9
        device = Device(own["name"], new["family"], peaks, bandwidth, new["l2_mib"] * 2**20)
        devices[device.name] = device
        if "alias" in own:
            devices[own["alias"]] = device
    return devices


DEVICES = read_devices()

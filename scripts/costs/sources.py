"""Reads the two public sources: NeuSight's FP32 kernels and the tables of the package aiconfigurator-core."""

import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

PACKAGE = "aiconfigurator-core"
VERSION = "0.12.0"
WHEEL_SHA256 = "aadc4aad0a00bf8a61c477c62bef43de479849c3aa0b1c3078068e08309eccc4"
DATA = "aiconfigurator_core/systems/data/"

# System of the package: name in the catalogue.
SYSTEMS = {
    "a100_sxm": "a100_80",
    "h100_sxm": "h100",
    "h200_sxm": "h200",
    "b200_sxm": "b200",
    "b300_sxm": "b300",
    "gb200": "gb200",
    "gb300": "gb300",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtxpro6000",
    "b60": "arc_pro_b60",
}

# Device of ops_fp32.csv.gz: name in the catalogue.
FP32_DEVICES = {
    "NVIDIA A100-PCIE-40GB": "a100_pcie_40",
    "NVIDIA A100 80GB PCIe": "a100_pcie_80",
    "NVIDIA H100 80GB HBM3": "h100",
    "Tesla P100-PCIE-16GB": "p100_pcie_16",
    "Tesla T4": "t4",
    "Tesla V100-PCIE-32GB": "v100_pcie_32",
}


class Wheel:
    """The tables of the package, read from the wheel without installing it."""

    def __init__(self, path: Path) -> None:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != WHEEL_SHA256:
            raise SystemExit(f"{path}: sha256 is {digest}; needs {PACKAGE} {VERSION}, {WHEEL_SHA256}")
        self._archive = zipfile.ZipFile(path)
        self._names = [name for name in self._archive.namelist() if name.startswith(DATA)]

    def paths(self, system: str, kind: str, framework: str) -> list[str]:
        """Paths of tables of a system, kind ("gemm", "attention") and framework, the newest version last."""
        prefix = f"{DATA}{system}/{kind}/{framework}/"
        found = [name for name in self._names if name.startswith(prefix) and name.endswith(".parquet")]
        return sorted((name.removeprefix(DATA) for name in found), key=_version_of)

    def table(self, path: str) -> pd.DataFrame:
        """One table by its path under systems/data."""
        return pd.read_parquet(io.BytesIO(self._archive.read(DATA + path)))


def _version_of(path: str) -> tuple[list[tuple[int, str]], str]:
    """Orders versions by number: 0.5.6.post2 < 0.5.10, 1.3.0rc15 < 1.3.0rc20."""
    version = path.split("/")[3]
    letters = "".join(c if c.isalnum() else " " for c in version.replace("rc", " ").replace("post", " "))
    return [(int(word), "") if word.isdigit() else (0, word) for word in letters.split()], path


def source_of(path: str) -> str:
    """How a table is named as a source: without the name of the file."""
    return f"{PACKAGE} {VERSION}, {path.rsplit('/', 1)[0]}"


def download_wheel(folder: Path) -> Path:
    """The wheel in the folder, fetched by pip if it is not there."""
    name = f"{PACKAGE.replace('-', '_')}-{VERSION}-*.whl"
    found = sorted(folder.glob(name))
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [
            "--no-deps",
            "--only-binary=:all:",
            "--platform=manylinux_2_28_x86_64",
            "--python-version=3.11",
        ]
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            *wanted,
            f"--dest={folder}",
            f"{PACKAGE}=={VERSION}",
        ]
        subprocess.run(command, check=True)
        found = sorted(folder.glob(name))
    return found[0]


def read_fp32(path: Path) -> pd.DataFrame:
    """ops_fp32.csv.gz with columns op, device (its name in the catalogue), dimensions and us.

    `dimensions` stays the text of the file, the key by which rows are held out; `dimension` parses it.
    """
    table = pd.read_csv(path)
    unknown = sorted(set(table.device) - set(FP32_DEVICES))
    if unknown:
        raise SystemExit(f"{path}: unknown device {unknown[0]}; known are {', '.join(FP32_DEVICES)}")
    return pd.DataFrame(
        {
            "op": table.op,
            "device": table.device.map(FP32_DEVICES),
            "dimensions": table.dimensions,
            "us": table.ms * 1e3,
        }
    )


def dimension(table: pd.DataFrame, name: str) -> np.ndarray:
    """One dimension of rows of read_fp32, such as K of "B=9;K=9;M=382;N=930"."""
    found = table.dimensions.str.extract(rf"(?:^|;){name}=(\d+)", expand=False)
    return np.asarray(found, dtype=np.float64)

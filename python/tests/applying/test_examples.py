"""The examples that train with PyTorch: they end in time, and with the bits of plain PyTorch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[2]


def output_of(example: str, folder: Path) -> str:
    ended = subprocess.run(
        [sys.executable, str(PYTHON / "examples" / example)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PYTHON)},
        timeout=180,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_resnet_on_two_devices(tmp_path: Path) -> None:
    pytest.importorskip("torchvision")
    output = output_of("resnet_two_devices.py", tmp_path)
    assert re.search(r"^identical: \d+ tensors$", output, re.M)
    assert output.splitlines()[-1].endswith("equal bits")


def test_gpt2_under_a_memory_cap(tmp_path: Path) -> None:
    output = output_of("gpt2_memory_cap.py", tmp_path)
    assert re.search(r"^identical: \d+ tensors$", output, re.M)
    found = re.search(r"with ([\d.]+) MiB there: ([\d.]+) MiB used", output)
    assert found is not None and float(found[2]) <= float(found[1])
    loss = re.search(r"loss ([\d.]+) -> ([\d.]+)", output)
    assert loss is not None and float(loss[2]) < float(loss[1])

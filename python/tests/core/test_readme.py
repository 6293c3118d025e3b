"""The first recipe of the repository's page: it runs as printed, and the numbers beside it are its output."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import emplace as em


def recipe(page: str) -> str:
    """The commands under "Place your own model"."""
    text = page.split("**Place your own model.**", 1)[1]
    block = re.search(r"\n\n((?:    .*\n)+)", text)
    assert block is not None, "the recipe is an indented block"
    return "".join(line[4:] + "\n" for line in block[1].splitlines())


def test_the_first_recipe_gives_a_step_with_batch_norms(
    root: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not request.config.getoption("--newest"):
        pytest.skip("--newest runs the recipe")
    pytest.importorskip("torchvision")
    page = (root / "README.md").read_text(encoding="utf-8")
    commands = recipe(page)
    printed = re.search(r"# ([\d,]+) ops, ([\d.]+) GFLOP, (\d+) batch norms", commands)
    assert printed is not None, "the page states what the recipe gives"
    (tmp_path / "bin").mkdir()
    for name, program in {"python": sys.executable, "emplace": os.environ["EMPLACE_PROGRAM"]}.items():
        command = tmp_path / "bin" / name  # A link to the interpreter would leave its environment.
        command.write_text(f'#!/bin/sh\nexec "{program}" "$@"\n', encoding="utf-8")
        command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands.replace("--budget 60s", "--budget 2s")],
        cwd=tmp_path,
        env=environment,
        check=True,
    )
    step = em.read(tmp_path / "step.json.gz")
    known = json.loads(
        subprocess.run(
            [os.environ["EMPLACE_PROGRAM"], "inspect", tmp_path / "step.json.gz", "--json"],
            capture_output=True,
            check=True,
        ).stdout
    )
    norms = known["op_types"]["aten::native_batch_norm"]
    assert (f"{known['ops']:,}", f"{known['flops'] / 1e9:.1f}", str(norms)) == printed.groups()
    assert not any("folded" in note for note in known.get("notes", [])), "the file has its norms"
    placement = json.loads((tmp_path / "placement.json").read_text(encoding="utf-8"))
    assert len(placement["ops"]) == known["ops"] and step is not None

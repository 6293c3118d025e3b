"""The package itself: one version, types, examples."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import emplace as em
from emplace.program import find_program

PYTHON = Path(em.__file__).parents[1]


def test_version_is_the_same_everywhere(root: Path) -> None:
    cmake = re.search(r"project\(emplace VERSION ([\d.]+)", (root / "CMakeLists.txt").read_text())
    assert cmake is not None and cmake[1] == em.__version__
    assert f"\n## {em.__version__}\n" in (root / "CHANGELOG.md").read_text()
    output = subprocess.run([find_program(), "--version"], capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[0] == f"emplace {em.__version__}"


def test_every_public_name_is_documented(root: Path) -> None:
    page = (root / "docs/guide/python.md").read_text()
    for name in em.__all__:
        assert getattr(em, name).__doc__, name
        assert re.search(rf"\b{name}\b", page), f"docs/guide/python.md does not name {name}"


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_mypy_finds_no_error(version: str) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed; scripts/test_python.sh --newest has it")
    line = [
        sys.executable,
        "-m",
        "mypy",
        "--python-version",
        version,
        "--config-file",
        "pyproject.toml",
        "-p",
        "emplace",
    ]
    ended = subprocess.run(line, capture_output=True, text=True, check=False, cwd=PYTHON)
    assert ended.returncode == 0, ended.stdout


# Those that need torch or a running head have tests in tests/applying and tests/actor.
EXAMPLES = sorted(
    path
    for path in (PYTHON / "examples").glob("*.py")
    if not re.search(r"^(import|from) (torch|emplace.actor)", path.read_text(), re.M)
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples(example: Path, tmp_path: Path) -> None:
    line = [sys.executable, str(example)]
    environment = {"PYTHONPATH": str(PYTHON)}
    ended = subprocess.run(
        line,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | environment,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip()


@pytest.mark.parametrize("path", sorted((PYTHON / "emplace").glob("*.py")), ids=lambda path: str(path.stem))
def test_documented_examples_hold(path: Path) -> None:
    module = importlib.import_module(f"emplace.{path.stem}" if path.stem != "__init__" else "emplace")
    assert doctest.testmod(module).failed == 0


def test_lines_are_not_long() -> None:
    long = [
        f"{path.relative_to(PYTHON)}:{number}"
        for path in sorted(PYTHON.rglob("*.py"))
        if not {"build", "dist"} & set(path.relative_to(PYTHON).parts)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 110
    ]
    assert not long


def test_code_of_the_guide_runs(root: Path, tmp_path: Path) -> None:
    """The code of the page, in its order, with a model of the fixtures."""
    page = (root / "docs/guide/python.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.S))
    (tmp_path / "model.onnx").write_bytes((root / "tests/fixtures/graphs/resnet50.onnx").read_bytes())
    code = code.replace('"quickstart.toml"', repr(str(root / "configs/quickstart.toml")))
    line = [sys.executable, "-c", code]
    ended = subprocess.run(
        line, capture_output=True, text=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(PYTHON)}
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "page.html").is_file() and (tmp_path / "p.json").is_file()

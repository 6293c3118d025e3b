"""A distribution called emplace, a stranger's or an older one of ours, in the folder of this package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import emplace as em

CURE = "; pip uninstall emplace, then install the wheel again"
STRANGER = "emplace: a stranger's package of PyPI, emplace 0.1.0, is installed in the same folder" + CURE
OLDER = "emplace: an older wheel of it, emplace 0.1.0, is installed in the same folder" + CURE
OVER = "emplace: a stranger's package of PyPI, which is also called emplace, is installed over it" + CURE
# The shape of the stranger's package: an __init__ that imports a module formatter, then another.
THEIRS = {"__init__.py": "from .formatter import Formatter\n", "formatter.py": "class Formatter: ...\n"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages that has only this one."""
    source, site = Path(em.__file__).parent, tmp_path / "site"
    shutil.copytree(source, site / "emplace", ignore=shutil.ignore_patterns("__pycache__", "bin", "lib"))
    add_distribution(site, "emplace_placement", ["emplace/__init__.py"])
    return site


def add_distribution(site: Path, name: str, files: list[str], scripts: str = "") -> None:
    folder = site / f"{name}-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (folder / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    if scripts:
        (folder / "entry_points.txt").write_text(f"[console_scripts]\n{scripts}\n")


def python(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(site)}
    line = [sys.executable, *words]
    return subprocess.run(line, capture_output=True, text=True, check=False, env=environment, cwd=site.parent)


def refused(site: Path, line: str) -> None:
    """An import raises the line, and the programs of the package print nothing else."""
    ended = python(site, "-c", "import emplace")
    assert ended.returncode == 1 and ended.stderr.splitlines()[-1] == f"emplace.errors.EmplaceError: {line}"
    for module in ("emplace.torch_executor", "emplace.ray", "emplace.program"):
        ended = python(site, "-m", module, "--version")
        assert (ended.returncode, ended.stderr) == (2, f"error: {line}\n"), module
    # As pip writes a console script.
    script = site.parent / "emplace"
    script.write_text("import sys\nfrom emplace.program import main\nsys.exit(main())\n")
    ended = python(site, str(script), "--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"error: {line}\n")


def test_alone_it_is_imported(site: Path) -> None:
    ended = python(site, "-c", "import emplace; print(emplace.place.__module__)")
    assert (ended.stdout, ended.stderr) == ("emplace.placing\n", "")


def test_over_a_stranger_it_is_refused(site: Path) -> None:
    add_distribution(site, "emplace", [f"emplace/{name}" for name in THEIRS])
    refused(site, STRANGER)


def test_under_a_stranger_it_is_refused(site: Path) -> None:
    """Their __init__ has replaced ours."""
    add_distribution(site, "emplace", [f"emplace/{name}" for name in THEIRS])
    for name, text in THEIRS.items():
        (site / "emplace" / name).write_text(text)
    refused(site, OVER)


def test_over_an_older_wheel_of_ours_it_is_refused(site: Path) -> None:
    add_distribution(site, "emplace", ["emplace/__init__.py"], "emplace = emplace.program:main")
    refused(site, OLDER)


@pytest.mark.parametrize(
    ("name", "files"), [("emplace", ["elsewhere/__init__.py"]), ("emplace_other", ["emplace/x.py"])]
)
def test_others_are_not_in_its_way(site: Path, name: str, files: list[str]) -> None:
    """A distribution without files in the package, as an editable one is, and one of another name."""
    add_distribution(site, name, files)
    assert python(site, "-c", "import emplace").stderr == ""


def test_a_stranger_elsewhere_is_not_in_its_way(site: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "emplace").mkdir(parents=True)
    add_distribution(other, "emplace", ["emplace/__init__.py"])
    ended = python(site, "-c", f"import sys; sys.path.append({str(other)!r}); import emplace")
    assert (ended.returncode, ended.stderr) == (0, "")

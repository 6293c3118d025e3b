"""The wheel that scripts/wheel.sh wrote: EMPLACE_WHEEL, or the one in python/dist."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import emplace as em

ROOT = Path(__file__).resolve().parents[3]
FOUND = (
    [os.environ["EMPLACE_WHEEL"]]
    if "EMPLACE_WHEEL" in os.environ
    else sorted((ROOT / "python/dist").glob("*.whl"))
)
pytestmark = pytest.mark.skipif(not FOUND, reason="no wheel in python/dist; scripts/wheel.sh writes it")
# Libraries that the tag manylinux requires of every system.
GIVEN = re.compile(r"lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+|z|nsl|util)\.so|ld-linux|linux-vdso")


@pytest.fixture(scope="module")
def wheel() -> Path:
    return Path(FOUND[-1])


def new_environment(folder: Path) -> Path:
    made = subprocess.run(["/usr/bin/python3", "-m", "venv", str(folder)], capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip("python3-venv is not installed")
    return folder


def install(folder: Path, wheel: Path, *options: str) -> None:
    line = [str(folder / "bin/pip"), "install", "-q", "--no-index", "--no-deps", *options, str(wheel)]
    subprocess.run(line, check=True, env=os.environ | {"CC": "/bin/false", "CXX": "/bin/false"})


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel alone; installing it took less than 10 s."""
    folder = new_environment(tmp_path_factory.mktemp("environment"))
    begin = time.monotonic()
    install(folder, wheel)
    assert time.monotonic() - begin < 10
    return next(folder.glob("lib/python3*/site-packages"))


def binaries(installed: Path) -> list[Path]:
    files = sorted([*(installed / "emplace/bin").iterdir(), *(installed / "emplace/lib").iterdir()])
    return [file for file in files if file.read_bytes()[:4] == b"\x7fELF"]


def environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("EMPLACE_PROGRAM", "PYTHONPATH")}


def test_name_and_size(wheel: Path) -> None:
    start, tag = f"emplace_placement-{em.__version__}-py3-none-", r"manylinux_2_\d+_x86_64\.whl"
    assert wheel.name.startswith(start) and re.fullmatch(tag, wheel.name.removeprefix(start))
    assert wheel.stat().st_size < 60e6


def test_its_only_dependency_is_numpy(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        metadata = file.read(
            next(name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        ).decode()
    required = [
        line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line
    ]
    assert required == ["Requires-Dist: numpy"]


def test_contents(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        for program in ("emplace", "emplace-exec-cpu", "emplace-exec-fake", "emplace-exec-torch"):
            mode = file.getinfo(f"emplace/bin/{program}").external_attr >> 16
            assert mode & 0o111, f"{program} is not executable"
        assert {"emplace/py.typed", "emplace/configs/quickstart.toml"} <= names
        assert not [
            name for name in names if re.search(r"lib(cuda|cudart|cublas\w*|cudnn\w*|nvidia\S*)[.-]", name)
        ]
        assert file.testzip() is None


def test_every_library_has_a_notice(wheel: Path, tmp_path: Path) -> None:
    check = [sys.executable, str(ROOT / "scripts/wheel_notices.py"), "--check"]
    subprocess.run([*check, str(wheel)], check=True)
    with zipfile.ZipFile(wheel) as file:
        text = file.read("emplace/THIRD_PARTY_NOTICES").decode()
    for wanted in (
        "CeCILL-C FREE SOFTWARE LICENSE AGREEMENT",
        "GNU LESSER GENERAL PUBLIC LICENSE",
        "Mozilla Public",
        "Apache License",
        "libdnnl2",
        "libjs-dygraphs",
        "libeigen3-dev",
        "Georgia Institute of Technology",
        "VIA Research Group at KAIST",
        "aiconfigurator-core",
    ):
        assert wanted in text, wanted
    # A library that is not listed is found.
    other = tmp_path / wheel.name
    shutil.copy(wheel, other)
    with zipfile.ZipFile(other, "a") as file:
        file.writestr("emplace_placement.libs/libnew-12345678.so.1", b"")
    ended = subprocess.run([*check, str(other)], capture_output=True, text=True, check=False)
    assert ended.returncode != 0 and "libnew-12345678.so.1" in ended.stderr


def test_libraries_need_only_the_base_of_the_tag(installed: Path) -> None:
    for file in binaries(installed):
        listed = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=True).stdout
        outside = [
            line for line in listed.splitlines() if "site-packages" not in line and not GIVEN.search(line)
        ]
        assert not outside, (file.name, outside)


def test_runs_where_nothing_else_is_installed(installed: Path, tmp_path: Path) -> None:
    """A root folder with the wheel, the C and C++ libraries, and nothing else."""
    box = tmp_path / "box"
    # The loader finds $ORIGIN by /proc.
    prefix = ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={box}/proc"]
    prefix += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    shutil.copytree(installed / "emplace", box / "app/emplace")
    shutil.copytree(installed / "emplace_placement.libs", box / "app/emplace_placement.libs")
    (box / "tmp").mkdir()
    (box / "proc").mkdir()
    given: set[str] = set()
    for file in binaries(installed):
        listed = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=True).stdout
        given |= {path for path in re.findall(r"(/\S+) \(", listed) if "site-packages" not in path}
    for path in given:
        target = box / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    app = "/app/emplace"
    graph, devices = (
        f"{app}/configs/graphs/cifar10_cnn-bs32.json.gz",
        f"{app}/configs/devices/quickstart.toml",
    )
    place = [
        f"{app}/bin/emplace",
        "place",
        graph,
        "--devices",
        devices,
        "--method",
        "heft",
        "-o",
        "/tmp/p.json",
    ]
    ended = subprocess.run([*prefix, "chroot", str(box), *place], capture_output=True, text=True, check=False)
    if "unshare:" in ended.stderr or "Operation not permitted" in ended.stderr:
        pytest.skip("this machine allows no chroot")
    assert ended.returncode == 0, ended.stderr
    assert (box / "tmp/p.json").is_file()


def test_the_console_script_is_the_program(installed: Path) -> None:
    script = installed.parents[2] / "bin/emplace"
    output = subprocess.run(
        [script, "doctor"], capture_output=True, text=True, check=True, env=environment()
    ).stdout
    assert output.startswith(f"emplace {em.__version__}")
    for part in ("executor cpu", "scotch", "clp"):
        assert re.search(rf"ok +{part}", output), output
    ended = subprocess.run([script, "place"], capture_output=True, text=True, check=False, env=environment())
    assert ended.returncode == 2 and ended.stderr.startswith("error: emplace place: ")


def test_refuses_the_package_of_pypi_beside_it(wheel: Path, tmp_path: Path) -> None:
    """A wheel in the shape of the stranger's, over ours and under it; the cure of the message helps."""
    theirs, info = tmp_path / "emplace-0.1.0-py3-none-any.whl", "emplace-0.1.0.dist-info"
    content = {
        "emplace/__init__.py": "from .formatter import Formatter\n",
        "emplace/formatter.py": "class Formatter: ...\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: emplace\nVersion: 0.1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    content[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*content, f"{info}/RECORD"])
    with zipfile.ZipFile(theirs, "w") as file:
        for name, text in content.items():
            file.writestr(name, text)
    folder = new_environment(tmp_path / "environment")
    site = next(folder.glob("lib/python3*/site-packages"))
    chosen = environment() | {"EMPLACE_PYTHON": str(folder / "bin/python")}

    def run(program: Path, *words: str) -> tuple[int, str]:
        line = [program, *words]
        ended = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path, env=chosen)
        return ended.returncode, ended.stdout + ended.stderr

    for wheels in ((wheel, theirs), (theirs, wheel)):
        for one in wheels:
            install(folder, one)
        status, line = run(folder / "bin/emplace", "--version")
        assert status == 2
        assert re.fullmatch("error: emplace: a stranger's package .*; pip uninstall emplace, then .*\n", line)
        assert "EmplaceError: emplace: a stranger's " in run(folder / "bin/python", "-c", "import emplace")[1]
        # Started without Python, the program works, but not its executor that needs the package.
        words = ["evaluate", "g.json", "p.json", "--executor", "torch", "--model", "m:f"]
        assert "executor 'torch': emplace: a stranger's " in run(site / "emplace/bin/emplace", *words)[1]
        subprocess.run([folder / "bin/pip", "uninstall", "-q", "-y", "emplace"], check=True)
        install(folder, wheel, "--force-reinstall")
        assert run(folder / "bin/emplace", "--version")[0] == 0
        subprocess.run([folder / "bin/pip", "uninstall", "-q", "-y", "emplace-placement"], check=True)


def test_works_as_the_guide_shows(installed: Path, tmp_path: Path) -> None:
    code = (
        "import emplace as em\n"
        "r = em.run('quickstart.toml', budget='2s', run_dir='one', progress=False)\n"
        "assert len(em.open_run('one').measurements()['valid']) > 0\n"
        "g = em.read(em.runs.CONFIGS / 'graphs/cifar10_cnn-bs32.json.gz')\n"
        "p = em.place(g, 'k80 x 2', budget='1s', progress=False)\n"
        "em.evaluate(g, p, executor='cpu', warmups=1, samples=1, progress=False)\n"
        "print(p.step_time > 0)\n"
    )
    python = installed.parents[2] / "bin/python"
    line = [python, "-c", code]
    ended = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment())
    assert ended.stdout == "True\n", ended.stderr

"""compare, evaluate and whole runs."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import emplace as em
from emplace import progress
from emplace.program import find_program


def test_compare(cnn: em.Graph, machine: em.Machine) -> None:
    methods = ["heft", "single-gpu"]
    version = subprocess.run([find_program(), "--version"], capture_output=True, text=True, check=True)
    if "lab" in version.stdout.partition("optional parts:")[2].partition("\n")[0].split():
        methods.append("towers-sync")
    table = em.compare(cnn, machine, methods=methods, progress=False)
    assert [row["method"] for row in table.to_dict()["methods"]] == methods
    assert table.best == "heft" and table.devices == machine.names
    columns = table.columns()
    assert columns["step_time_s"][0] == em.place(cnn, machine, method="heft", progress=False).step_time
    assert all(above >= 0 for above in columns["above_bound"])
    assert "heft" in str(table) and "<td>heft</td>" in table._repr_html_()


def test_evaluate_by_simulation(cnn: em.Graph, placed: em.Placement, tmp_path: Path) -> None:
    measured = em.evaluate(cnn, placed, trace=tmp_path / "trace.json")
    assert measured.step_time == placed.step_time and measured.peak == placed.peak and measured.valid
    assert (tmp_path / "trace.json").is_file()
    placed.save(tmp_path / "p.json")
    assert em.evaluate(cnn, tmp_path / "p.json", machine=placed.machine).to_dict() == measured.to_dict()
    assert "cpu:0" in str(measured)


def test_evaluate_on_cores(cnn: em.Graph, placed: em.Placement) -> None:
    if not find_program().with_name("emplace-exec-cpu").exists():
        pytest.skip("emplace-exec-cpu was not built")
    measured = em.evaluate(cnn, placed, executor="cpu", verify=True, warmups=1, samples=3, progress=False)
    result = measured.to_dict()
    assert measured.valid and result["verified"] and len(measured.samples) >= 3


def test_a_placement_that_does_not_fit_is_a_result(cnn: em.Graph, tmp_path: Path) -> None:
    roomy, tight = tmp_path / "roomy.toml", tmp_path / "tight.toml"
    for file, memory in ((roomy, "1GiB"), (tight, "8MiB")):
        file.write_text(f'[[device]]\nname = "gpu:0"\nprofile = "k80_gk210"\nmemory = "{memory}"\n')
    placement = em.place(cnn, roomy, method="single-gpu", progress=False)
    placement.save(tmp_path / "p.json")
    measured = em.evaluate(cnn, tmp_path / "p.json", machine=tight)
    assert not measured.valid and measured.step_time is None and "gpu:0 needs" in measured.reason


@pytest.fixture(scope="module")
def finished(root: Path, tmp_path_factory: pytest.TempPathFactory) -> em.Run:
    directory = tmp_path_factory.mktemp("runs") / "one"
    config = directory.with_suffix(".toml")
    config.write_text(
        '[run]\nstarts = ["scratch"]\n[input]\n'
        f'graph = "{root}/tests/fixtures/graphs/cifar10_cnn-bs4.json.gz"\n'
        f'devices = "{root}/configs/devices/quickstart.toml"\n'
    )
    return em.run(
        config, run_dir=directory, episodes=20, settings={"compare.methods": ["heft"]}, progress=False
    )


def test_a_run_is_read(finished: em.Run) -> None:
    summary = finished.to_dict()
    assert summary["lost"] == summary["duplicated"] == 0
    run = em.open_run(finished.directory)
    columns = run.measurements()
    assert len(columns["step_time_s"]) == summary["measurements"] > 0
    assert {len(column) for column in columns.values()} == {summary["measurements"]}
    assert len(run.updates()["loss"]) == summary["updates"]
    assert len(run.episodes()["seq"]) == summary["episodes"]
    assert "heft" in run.heuristics()["method"]
    assert "[run]" in run.config
    valid = [time for time, fits in zip(columns["step_time_s"], columns["valid"]) if fits]
    assert min(valid) == pytest.approx(summary["best_step_time_s"])


def test_a_run_is_not_written_to(finished: em.Run) -> None:
    database = finished.directory / "run.db"
    before = database.read_bytes()
    em.open_run(finished.directory).measurements()
    assert database.read_bytes() == before
    from emplace.runs import _open

    with _open(database) as connection, pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM measurements")


def test_a_run_on_a_read_only_disk(finished: em.Run) -> None:
    files = list(finished.directory.iterdir())
    for name in ("run.db-wal", "run.db-shm"):
        (finished.directory / name).unlink(missing_ok=True)
    modes = {file: file.stat().st_mode for file in [finished.directory, *files] if file.exists()}
    finished.directory.chmod(0o500)
    try:
        assert em.open_run(finished.directory).measurements()["valid"]
    finally:
        for file, mode in modes.items():
            if file.exists():
                file.chmod(mode)


def test_what_a_run_recommends(finished: em.Run, cnn: em.Graph, root: Path) -> None:
    best = finished.best(cnn, root / "configs/devices/quickstart.toml")
    assert best.step_time <= finished.to_dict()["best_step_time_s"] * (1 + 1e-9)
    page = finished.report(finished.directory / "again.html")
    assert "<iframe" in page._repr_html_() and page.html.startswith("<!")


def test_a_damaged_database_is_reported_in_one_line(finished: em.Run, tmp_path: Path) -> None:
    (tmp_path / "run.db").write_bytes(b"no database" * 500)
    with pytest.raises(em.EmplaceError) as caught:
        em.open_run(tmp_path).measurements()
    assert "run.db" in caught.value.where and "salvage" in caught.value.cure


SEARCH = """
import sys, emplace as em
g = em.read(sys.argv[1])
print("ready", flush=True)
p = em.place(g, "k80 x 2, epyc9654", budget="60s", progress=False)
print(p.interrupted, p.step_time >= p.bound > 0, len(p) == len(g))
"""


def children_of(pid: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(stat[1]) == pid and stat[0] != "Z":
                found.append(int(folder.name))
    return found


def started_search(graph: Path, folder: Path) -> tuple[subprocess.Popen[str], int]:
    """A Python that searches and has found something, and the process of its program."""
    line = [sys.executable, "-c", SEARCH, str(graph)]
    child = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(em.__file__).parents[1],
        env=os.environ | {"TMPDIR": str(folder)},
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    end = time.monotonic() + 50
    while time.monotonic() < end:
        if list(folder.glob("emplace-*/found.json")):
            return child, children_of(child.pid)[0]
        time.sleep(0.05)
    raise AssertionError("nothing was found")


def ends_within(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_ctrl_c_returns_the_best_so_far(root: Path, tmp_path: Path) -> None:
    child, program = started_search(root / "configs/graphs/nmt-2layer-bs64.json.gz", tmp_path)
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=50)
    assert output == "True True True\n"
    assert child.returncode == 0 and ends_within(program, 1)


@pytest.mark.skipif(not os.access("/usr/bin/setpriv", os.X_OK), reason="needs setpriv of util-linux")
def test_no_search_is_left_behind(root: Path, tmp_path: Path) -> None:
    child, program = started_search(root / "configs/graphs/nmt-2layer-bs64.json.gz", tmp_path)
    child.kill()
    child.communicate()
    assert ends_within(program, 10)


@pytest.mark.parametrize(
    "program, interrupts", [("exec sleep 60", 1), ("trap '' INT; while :; do sleep 0.1; done", 2)]
)
def test_ctrl_c_without_a_result(tmp_path: Path, program: str, interrupts: int) -> None:
    """A program that has nothing yet, and one that does not react: Python gets its KeyboardInterrupt."""
    (tmp_path / "emplace").write_text(f"#!/bin/sh\n{program}\n")
    (tmp_path / "emplace").chmod(0o755)
    child = subprocess.Popen(
        [sys.executable, "-c", "import emplace as em; print('ready', flush=True); em.machine('k80')"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(em.__file__).parents[1],
        env=os.environ | {"EMPLACE_PROGRAM": str(tmp_path / "emplace")},
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    end = time.monotonic() + 20
    while not children_of(child.pid) and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.3)
    for _ in range(interrupts):
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        time.sleep(0.3)
    _, errors = child.communicate(timeout=20)
    assert errors.rstrip().endswith("KeyboardInterrupt") and not children_of(child.pid)


def test_progress_without_tqdm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setattr(progress, "_PLAIN_EVERY_S", 0.0)
    with progress.Progress("place auto", 30.0, True) as view:
        view.on_tick()
        view.on_line(
            "anneal  1.0 s of 30.0 s  best 2.1 ms (-5.0 % vs heft, 3.0 % above the bound)  9 evaluations"
        )
        view.on_tick()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("place auto") and lines[1].startswith("anneal")
    with progress.Progress("place auto", 30.0, False) as view:
        view.on_tick()
    assert not capsys.readouterr().err


def test_progress_with_tqdm(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    with progress.Progress("place auto", 30.0, True) as view:
        view.on_line(
            "anneal  1.0 s of 30.0 s  best 2.1 ms (-5.0 % vs heft, 3.0 % above the bound)  9 evaluations"
        )
        view.on_tick()
    drawn = capsys.readouterr().err
    assert "of 30 s" in drawn and "best 2.1 ms (-5.0 % vs heft, 3.0 % above the bound)" in drawn

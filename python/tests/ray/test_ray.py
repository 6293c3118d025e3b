"""With Ray itself and its autoscaler, in namespaces of their own: from no node to three and back by the
demand of a run, while actors and raylets are killed. EMPLACE_CHAOS=long runs for five minutes.

EMPLACE_PYTHON names a Python that has Ray, if the one of pytest has none.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import world

from emplace.errors import EmplaceError
from emplace.program import find_program

LONG = os.environ.get("EMPLACE_CHAOS") == "long"


def _python_with_ray() -> str | None:
    for python in (sys.executable, os.environ.get("EMPLACE_PYTHON", "")):
        if python and shutil.which(python):
            asked = "import importlib.metadata as m; print(m.version('ray'))"
            if subprocess.run([python, "-c", asked], capture_output=True).returncode == 0:
                return python
    return None


@pytest.fixture(scope="module")
def python() -> str:
    found = _python_with_ray()
    if found is None:
        pytest.skip("ray is not installed; scripts/test_python.sh --newest has it")
    if shutil.which("ip") is None:
        pytest.skip("ip is not installed (iproute2)")
    allowed = subprocess.run(["unshare", "-pfn", "--mount-proc", "true"], capture_output=True, text=True)
    if allowed.returncode != 0:
        pytest.skip(f"no namespaces of our own are allowed here: {allowed.stderr.strip()}")
    return found


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: Ray's sockets are in it."""
    path = Path(tempfile.mkdtemp(prefix="er"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def play(python: str, folder: Path, scenario: str, seconds: float = 0) -> world.Json:
    """What a scenario has observed; it fails with the logs if it could not be played."""
    try:
        program = str(find_program())
    except EmplaceError as error:
        pytest.skip(str(error))
    environment = os.environ | {"EMPLACE_PROGRAM": program, "HOME": str(folder)}
    environment.pop("EMPLACE_PYTHON", None)
    command = world.inside(python, folder, scenario, seconds)
    played = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=seconds + 240)
    logs = "".join(path.read_text()[-3000:] for path in sorted(folder.glob("*.log")))
    assert played.returncode == 0, f"{played.stderr[-3000:]}\n{logs}"
    found: world.Json = json.loads(played.stdout.splitlines()[-1])
    print(json.dumps({key: value for key, value in found.items() if key != "run"}, indent=1))
    return found


def expect_nothing_lost(run: world.Json) -> None:
    assert run["status"] == 0
    assert run["lost"] == 0 and run["duplicated"] == 0 and run["leases"]["expired"] == 0
    leases = run["leases"]
    assert leases["issued"] == leases["counted"] + leases["open"] + leases["expired"] + leases["refused"]


def test_nodes_follow_the_demand_while_actors_and_raylets_are_killed(python: str, folder: Path) -> None:
    found = play(python, folder, "follow", 300 if LONG else 20)
    assert found["nodes_before"] == 0 and found["nodes_at_most"] == 3
    kinds = [kill["kind"] for kill in found["kills"]]
    assert {"actor", "raylet"} <= set(kinds) and len(kinds) >= (30 if LONG else 2)
    expect_nothing_lost(found["run"])
    assert found["idle_s"] < 10, "idle while placements wait"
    assert found["driver"]["status"] == 0
    assert found["joins_left"] == []
    assert max(found["driver"]["drained_s"]) < 1


def test_the_end_of_a_driver_leaves_no_process(python: str, folder: Path) -> None:
    found = play(python, folder, "ended")
    for name, status in (("SIGTERM", 143), ("SIGINT", 130), ("SIGKILL", -9)):
        assert found[name]["status"] == status, name
        assert found[name]["gone_s"] < 5, name
    assert found["driver"]["status"] == 0
    expect_nothing_lost(found["run"])
    assert found["left"] == []


def test_the_launcher_starts_restarts_and_ends_the_driver(python: str, folder: Path) -> None:
    found = play(python, folder, "launched")
    expect_nothing_lost(found["run"])
    assert found["run"]["restarts"]["executors"] == 1
    assert found["left"] == []
    assert found["gone_with_launcher_s"] < 10


def test_failures_of_ray_are_reported_in_one_line_and_the_run_continues(python: str, folder: Path) -> None:
    found = play(python, folder, "refused")
    assert found["no cluster"]["status"] == 2
    assert "Could not find any running Ray instance" in found["no cluster"]["error"]
    assert "ray start --head" in found["no cluster"]["error"]
    assert found["no listener"]["status"] == 2
    assert "Ray at '127.0.0.1:6400': does not answer" in found["no listener"]["error"]
    assert "no node of the Ray cluster has CPU 64" in found["too large"]
    assert found["run continues"]


def test_a_ray_of_its_own_on_one_machine_and_a_run_with_keys(python: str, folder: Path) -> None:
    found = play(python, folder, "local")
    assert found["killed"]["status"] == -9 and found["ended"]["status"] == 0
    expect_nothing_lost(found["run"])
    assert found["secrets"] == [], "a key is on no disk of a node, and on no command line"


def test_the_head_of_ray_may_die(python: str, folder: Path) -> None:
    found = play(python, folder, "head")
    expect_nothing_lost(found["run"])
    assert found["run"]["restarts"]["executors"] <= 2
    assert found["left"] == []

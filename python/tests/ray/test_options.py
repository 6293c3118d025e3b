"""The command line: each wrong argument is reported in one line with its cure."""

from __future__ import annotations

import doctest
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emplace.errors import EmplaceError
from emplace.program import find_program
from emplace.ray.cluster import Bundle, RayCluster, check_reachable, check_version, first_line
from emplace.ray.crew import Node, Process, Status
from emplace.ray.driver import reports_in, status_of
from emplace.ray.joining import Joiner
from emplace.ray.options import Options, parse

HEAD = "tcp://10.0.0.1:5555"
PYTHON = Path(__file__).resolve().parents[2]


def parsed(*words: str, **environment: str) -> Options:
    return parse([HEAD, *words], environment)


def test_what_an_actor_runs() -> None:
    options = parsed(
        *("--insecure", "--executors-per-actor", "4", "--executor", "cpu", "--cache", "/tmp/c"),
        *("--num-cpus", "8", "--num-gpus", "0.5", "--memory", "1000", "--resources", '{"TPU": 2}'),
        *("--env", "SECRET"),
        SECRET="x",
        EMPLACE_PROGRAM="/here/emplace",
    )
    assert options.join == ["--executors", "4", "--executor", "cpu", "--cache", "/tmp/c", "--insecure"]
    assert options.bundle.needs() == {"CPU": 8, "GPU": 0.5, "memory": 1000, "TPU": 2}
    assert options.programs == ["/here/emplace", "", "emplace"]
    assert options.environment == ["SECRET"]
    assert parsed("--insecure", "--program", "/there/emplace").programs == ["/there/emplace"]


def test_the_demand_may_come_by_a_socket_without_a_key(tmp_path: Path) -> None:
    key = tmp_path / "ray.key"
    key.write_text('name = "ray"\npublic = "p"\nsecret = "s"\nhead = "h"\n')
    options = parsed("--key", str(key), "--watch", "ipc:///run/head.ipc")
    assert (options.watch, options.access) == ("ipc:///run/head.ipc", [])
    assert parsed("--key", str(key)).access == ["--key", str(key)]
    mounted = parsed("--key-on-nodes", "/etc/emplace/node.key", "--key", str(key))
    assert mounted.key == b"" and mounted.join[-2:] == ["--key", "/etc/emplace/node.key"]


def test_a_key_that_all_share_names_its_head_when_it_travels(tmp_path: Path) -> None:
    program = program_or_skip()
    subprocess.run([program, "keygen", str(tmp_path)], check=True, capture_output=True)
    shared = parsed("--key", str(tmp_path / "head.key")).key.decode()
    public = next(line for line in shared.splitlines() if line.startswith("public"))
    assert public.replace("public", "head") in shared.splitlines()
    subprocess.run([program, "keygen", str(tmp_path), "--role", "executor", "--name", "ray"], check=True)
    assert parsed("--key", str(tmp_path / "ray.key")).key == (tmp_path / "ray.key").read_bytes()


def program_or_skip() -> str:
    try:
        return str(find_program())
    except EmplaceError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--insecure", "--key", "k"], "--insecure: conflicts with --key"),
        (["--key", "/no/such.key"], "/no/such.key: cannot be read"),
        (["--key", __file__], "is no key file"),
        (["--max", "2", "--executors-per-actor", "3"], "--max: is below"),
        (["--max", "-1"], "'-1' is not a whole number"),
        (["--executors-per-actor", "0"], "is not in 1..4000"),
        (["--num-cpus", "nan"], "is not a number of at least 0"),
        (["--num-gpus", "1.5"], "is above 1 and not whole"),
        (["--resources", "TPU=4"], "is not a JSON object"),
        (["--resources", '{"TPU": "4"}'], "'TPU' is not an amount"),
        (["--resources", '{"CPU": 4}'], "has an option of its own"),
        (["--runtime-env", "[]"], "is not a JSON object"),
        (["--env", "NOT_THERE"], "'NOT_THERE' is not set"),
        (["--maxx", "2"], "unrecognized arguments"),
    ],
)
def test_wrong_arguments(words: list[str], line: str) -> None:
    with pytest.raises(EmplaceError) as refused:
        parsed(*words)
    assert line in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("version", "line"), [("", "is not installed"), ("1.13.0", "is too old"), ("2.8.1", "too old")]
)
def test_versions_of_ray(version: str, line: str) -> None:
    with pytest.raises(EmplaceError, match=line):
        check_version(version)
    check_version("2.9.0")
    check_version("3.0.0.dev0")


def test_the_command_without_ray_reports_how_to_get_it() -> None:
    """Hides Ray, whether or not it is installed here."""
    hide = (
        "import importlib.metadata as m, sys\n"
        "old = m.version\n"
        "def version(name):\n"
        "    if name == 'ray': raise m.PackageNotFoundError(name)\n"
        "    return old(name)\n"
        "m.version = version\n"
        "from emplace.ray.driver import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(PYTHON), "EMPLACE_PROGRAM": "/bin/true"}
    command = [sys.executable, "-c", hide, HEAD, "--insecure"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ended.returncode == 2
    assert (
        ended.stderr.startswith("error: ray: is not installed; pip install") and ended.stderr.count("\n") == 1
    )
    version = subprocess.run([*command[:3], "--version"], capture_output=True, text=True, env=environment)
    assert "ray is not installed" in version.stdout and version.returncode == 0


def test_help_and_wrong_arguments_of_the_command() -> None:
    environment = os.environ | {"PYTHONPATH": str(PYTHON)}
    command = [sys.executable, "-m", "emplace.ray"]
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True, env=environment)
    assert shown.returncode == 0 and "--ray-address" in shown.stdout
    refused = subprocess.run([*command, "--nonsense"], capture_output=True, text=True, env=environment)
    assert (
        refused.returncode == 2 and refused.stderr.count("\n") == 1 and refused.stderr.startswith("error: ")
    )


@pytest.mark.parametrize("module", ["cluster", "crew", "driver", "joining", "options"])
def test_documented_examples_hold(module: str) -> None:
    assert doctest.testmod(importlib.import_module(f"emplace.ray.{module}")).failed == 0


def test_a_bundle_fits_or_not() -> None:
    bundle = Bundle(cpus=2, resources={"TPU": 1})
    assert bundle.fits({"CPU": 4, "TPU": 1, "memory": 1e9})
    assert not bundle.fits({"CPU": 4}) and not bundle.fits({"CPU": 1, "TPU": 4})


def test_why_actors_wait() -> None:
    class Ray:
        def __init__(self, *nodes: dict[str, object]) -> None:
            self.nodes = lambda: nodes

    def shortage(*nodes: dict[str, object]) -> str:
        cluster = RayCluster(Bundle(cpus=2), post=lambda event: None)
        cluster._ray = Ray(*nodes)
        return cluster._shortage(3)

    small = {"Alive": True, "Resources": {"CPU": 1.0}}
    dead = {"Alive": False, "Resources": {"CPU": 64.0}}
    assert shortage(small, dead) == "no node of the Ray cluster has CPU 2: 3 actors wait until one comes"
    assert "full" in shortage(small, {"Alive": True, "Resources": {"CPU": 2.0}})


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "there:x", "[::1]:1"])
def test_a_cluster_that_does_not_answer(address: str) -> None:
    with pytest.raises(EmplaceError, match="does not answer|is not HOST:PORT"):
        check_reachable(address)
    check_reachable("local")


def test_a_cluster_that_was_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    check_reachable("auto")
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/ray_current_cluster").write_text("127.0.0.1:1\n")
    with pytest.raises(EmplaceError, match="Ray at '127.0.0.1:1': does not answer .*ray start --head"):
        check_reachable("auto")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:2")
    with pytest.raises(EmplaceError, match="Ray at '127.0.0.1:2'"):
        check_reachable("auto")


def test_errors_of_ray_are_reported_in_one_line() -> None:
    assert first_line(RuntimeError("\n  The first.\nThe second.")) == "The first"
    assert first_line(ValueError()) == "ValueError"


REPORT = {
    "executors_wanted": 3,
    "executors": 2,
    "ending": "",
    "nodes": [
        {"host": "a", "pid": 7, "executors": 2, "in_flight": 8},
        {"host": "a", "pid": 1, "executors": 0, "in_flight": 0},
    ],
}


def test_reports_become_a_status() -> None:
    assert status_of(REPORT) == Status(3, 2, (Node(Process("a", 7), 2, 8),))
    assert status_of(REPORT | {"ending": "down"}).ending
    with pytest.raises(KeyError):
        status_of({})
    assert list(reports_in([b"{\n", b'"a": 1\n', b"}\n", b"garbage\n", b"}\n", b"{\n", b"}\n"])) == [
        {"a": 1},
        {},
        {},
    ]


class TestJoiner:
    """The actor's class by itself, with programs that are not emplace."""

    @staticmethod
    def start(
        script: str, tmp_path: Path, key: bytes = b"", **environment: str
    ) -> tuple[Joiner, dict[str, object]]:
        program = tmp_path / "program"
        program.write_text("#!/bin/sh\n" + script)
        program.chmod(0o700)
        joiner = Joiner()
        return joiner, joiner.start([str(program)], ["join", HEAD], key, environment)

    def test_reports_how_the_program_ended(self, tmp_path: Path) -> None:
        joiner, facts = self.start('echo "error: no: such head" >&2; exit 4', tmp_path)
        assert isinstance(facts["pid"], int)
        assert joiner.wait() == {"status": 4, "last": "error: no: such head"}

    def test_a_drain_ends_its_standard_input(self, tmp_path: Path) -> None:
        joiner, _ = self.start("cat >/dev/null; echo drained >&2", tmp_path)
        joiner.drain()
        joiner.drain()
        assert joiner.wait() == {"status": 0, "last": "drained"}

    def test_reports_the_pid_of_the_program(self, tmp_path: Path) -> None:
        joiner, facts = self.start("echo $$ >&2", tmp_path)
        assert joiner.wait()["last"] == str(facts["pid"])

    def test_a_key_is_passed_in_memory_and_not_on_disk(self, tmp_path: Path) -> None:
        joiner, _ = self.start(
            'cat "$4" >&2; stat -L -c %a "$4" >&2; echo "$4" >&2', tmp_path, key=b"secret\n"
        )
        assert joiner.wait()["status"] == 0
        assert list(joiner._last)[:2] == ["secret", "600"]
        assert joiner._last[2].startswith("/proc/self/fd/")

    def test_passes_environment_variables(self, tmp_path: Path) -> None:
        joiner, _ = self.start('echo "$TOKEN" >&2', tmp_path, TOKEN="a b")
        assert joiner.wait()["last"] == "a b"

    def test_lists_the_programs_that_were_tried(self, tmp_path: Path) -> None:
        joiner = Joiner()
        facts = joiner.start(["/no/such", "also-not-there"], [], b"", {})
        assert joiner.wait() == {"status": 2, "last": facts["failure"]}
        assert "no program emplace (tried /no/such, also-not-there)" in facts["failure"]

"""A Ray cluster with an autoscaler and a run of emplace, in a PID and network namespace of their own: only
our processes can be killed there, and all of them end with the first.

    world.py FOLDER SCENARIO [SECONDS]      prints one JSON object with what was observed

Nodes of the autoscaler are real raylets on this machine ("fake_multinode"). Run it by `inside` only.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / "python"
NODES = 3
IDLE_MINUTES = 0.05
Json = dict[str, Any]


def cluster_config() -> Json:
    """What the autoscaler of a cluster on one machine reads; the wheel of Ray lacks its own example."""
    node = {"node_config": {}, "min_workers": 0}
    return {
        "cluster_name": "fake_multinode",
        "max_workers": NODES,
        "provider": {
            "type": "fake_multinode",
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "available_node_types": {
            "ray.head.default": {**node, "resources": {"CPU": 0}, "max_workers": 0},
            "executor": {**node, "resources": {"CPU": 1, "object_store_memory": 10**8}, "max_workers": NODES},
        },
        "head_node_type": "ray.head.default",
        "upscaling_speed": 10.0,
        "idle_timeout_minutes": IDLE_MINUTES,
        "auth": {},
        "docker": {},
        "initialization_commands": [],
        "setup_commands": [],
        "head_setup_commands": [],
        "worker_setup_commands": [],
        "head_start_ray_commands": [],
        "worker_start_ray_commands": [],
        "file_mounts": {},
        "cluster_synced_files": [],
        "file_mounts_sync_continuously": False,
    }


def inside(python: str, folder: Path, scenario: str, seconds: float = 0) -> list[str]:
    """The command that plays a scenario in namespaces of its own. Their first process is a shell, which reaps
    orphans: processes of Ray wait for the end of their dead parents.
    """
    here = [
        "bash",
        "-c",
        '"$@"; exit $?',
        "init",
        python,
        str(Path(__file__).resolve()),
        str(folder),
        scenario,
        str(seconds),
    ]
    return ["unshare", "-pfn", "--mount-proc", "--kill-child", *here]


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """Asks again and again until something is true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.02)
    return found


class Watched:
    """`emplace ps --watch`: the newest report, and all that a scenario wants of each."""

    def __init__(
        self,
        program: str,
        address: str,
        *looks: Callable[[Json, float], None],
        access: Sequence[str] = ("--insecure",),
    ) -> None:
        self.newest: Json = {}
        self.looks = list(looks)
        self._child = subprocess.Popen(
            [program, "ps", address, *access, "--watch", "--json"], stdout=subprocess.PIPE
        )
        assert self._child.stdout is not None
        self._stream = self._child.stdout
        os.set_blocking(self._stream.fileno(), False)
        self._rest = b""

    def turn(self, seconds: float) -> None:
        """Reads reports for this many seconds; returns at once after a report."""
        if not select.select([self._stream], [], [], seconds)[0]:
            return
        read = os.read(self._stream.fileno(), 1 << 20)
        if not read:
            time.sleep(seconds)  # The run is over; waits until the caller notices.
            return
        *reports, self._rest = (self._rest + read).split(b"\n}\n")
        for report in reports:
            self.newest = json.loads(report + b"\n}")
            for look in self.looks:
                look(self.newest, time.monotonic())

    def close(self) -> None:
        self._child.terminate()
        self._child.wait()
        self._stream.close()

    def until(self, condition: Callable[[Json], bool], seconds: float, what: str) -> float:
        """Waits for a report that meets the condition; returns the time that it took [s]."""
        start = time.monotonic()
        while not (self.newest and condition(self.newest)):
            if time.monotonic() > start + seconds:
                raise TimeoutError(f"{what}: {json.dumps(self.newest)[:2000]}")
            self.turn(0.1)
        return time.monotonic() - start


class Idle:
    """The longest time that an executor was idle while placements waited."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._since: dict[str, float] = {}

    def look(self, report: Json, now: float) -> None:
        nodes = [node for node in report["nodes"] if node["executors"] > 0]
        waiting = report["in_flight"] - sum(node["in_flight"] for node in nodes)
        idle = {node["node"] for node in nodes if node["in_flight"] == 0} if waiting > 0 else set()
        self._since = {node: self._since.get(node, now) for node in idle}
        for since in self._since.values():
            self.longest_s = max(self.longest_s, now - since)


def processes(word: str) -> list[int]:
    """The processes whose command line contains a word."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if entry.name.isdigit() and word in line and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def joins() -> list[int]:
    """The processes that take part, without the shells that started them."""
    return [pid for pid in processes(" join tcp://") if not _command(pid).startswith("/bin/sh")]


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    return ""


@contextlib.contextmanager
def ray_cluster(folder: Path) -> Iterator[str]:
    """A head without room for actors, and an autoscaler that starts nodes of one CPU."""
    config = folder / "autoscaler.json"
    config.write_text(json.dumps(cluster_config()))
    environment = os.environ | {
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "RAY_FAKE_CLUSTER": "1",
        "RAY_TMPDIR": str(folder / "t"),
        "RAY_DISABLE_IMPORT_WARNING": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        # A dead raylet is noticed after 3 s instead of 15, so that its node can be replaced.
        "RAY_health_check_initial_delay_ms": "1000",
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_timeout_ms": "1000",
        "RAY_health_check_failure_threshold": "2",
        # A driver gives up on a head of Ray that is gone after 3 s instead of 60.
        "RAY_gcs_rpc_server_reconnect_timeout_s": "3",
    }
    (folder / "t").mkdir(exist_ok=True)
    os.environ.update(environment)
    ray = str(Path(sys.executable).with_name("ray"))
    start = [ray, "start", "--head", "--num-cpus=0", f"--autoscaling-config={config}"]
    start += ["--object-store-memory=100000000", "--include-dashboard=false", "--disable-usage-stats"]
    with (folder / "ray.log").open("w") as log:
        subprocess.run(start, check=True, stdout=log, stderr=log)
    yield "auto"
    shutil.copytree(
        folder / "t",
        folder / "ray-logs",
        ignore_dangling_symlinks=True,
        dirs_exist_ok=True,
        ignore=lambda _, names: [name for name in names if name.startswith("sock")],
    )


def ray_nodes(ray: Any) -> int:
    """The number of living nodes other than the head."""
    return sum(bool(node["Alive"]) for node in ray.nodes()) - 1


OUTSIDE = 'roles = ["executor"]\nstart = "join"'


def start_run(
    folder: Path,
    program: str,
    *more: str,
    executors: str = OUTSIDE,
    host: str = "127.0.0.1",
    port: int = 5999,
    key: str = "",
) -> tuple[subprocess.Popen[bytes], str]:
    """`emplace up`, by default with no executor of its own: they come from outside. Returns it with its
    address.
    """
    security = f'key = "{key}"\nallowed = "{folder}/keys/allowed.toml"' if key else "insecure = true"
    (folder / "cluster.toml").write_text(
        f'[run]\nconfig = "{ROOT}/configs/quickstart.toml"\n'
        f'[head]\nendpoint = "tcp://{host}:{port}"\n{security}\n'
        f'[[node]]\nname = "executors"\n{executors}\n'
    )
    command = [program, "up", str(folder / "cluster.toml"), "--run-dir", str(folder / "run"), "--json"]
    command += ["--budget", "600s", *settings(), *more]
    log = (folder / "up.log").open("w")
    environment = os.environ | {"PYTHONPATH": str(PYTHON), "EMPLACE_PYTHON": sys.executable}
    up = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
    wait_for(lambda: "the head listens" in (folder / "up.log").read_text(), 30, "the head listens")
    return up, f"tcp://127.0.0.1:{port}"


def settings() -> list[str]:
    """A run whose placements take 300 ms each, with work for three executors at any time."""
    pairs = {
        "input.graph": f"{ROOT}/tests/fixtures/graphs/cifar10_cnn-bs128.json",
        "run.starts": '["scratch"]',
        "policy.method": "random",
        "executor.kind": "fake",
        "executor.delay": "300ms",
        "executor.count": "1",
        "pipeline.max_executors": str(NODES),
        "pipeline.max_outstanding": "8",
    }
    return [word for key, value in pairs.items() for word in ("--set", f"{key}={value}")]


def start_driver(
    folder: Path,
    address: str,
    *more: str,
    log: str = "driver.log",
    access: Sequence[str] = ("--insecure",),
) -> subprocess.Popen[bytes]:
    """Starts the driver as a user does."""
    command = [sys.executable, "-m", "emplace.ray", address, *access, "--json", *more]
    environment = os.environ | {"PYTHONPATH": str(PYTHON)}
    errors = (folder / log).open("a")
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment)


def ended(process: subprocess.Popen[bytes], seconds: float) -> Json:
    """The JSON object of a command, and its exit status."""
    out, _ = process.communicate(timeout=seconds)
    result: Json = json.loads(out) if out.strip() else {}
    return {**result, "status": process.returncode}


def executors(report: Json) -> int:
    """Nodes with executors that take part."""
    return sum(node["executors"] > 0 for node in report["nodes"])


def names(report: Json) -> set[str]:
    """Names of the nodes with executors; each process has its own."""
    return {node["node"] for node in report["nodes"] if node["executors"] > 0}


def some(report: Json) -> bool:
    return executors(report) > 0


def none(report: Json) -> bool:
    return executors(report) == 0


def scenario_follow(folder: Path, program: str, seconds: float) -> Json:
    """0 -> 3 nodes -> 0 by the demand; with `seconds`, an actor or a raylet is killed every 10 s."""
    found: Json = {}
    idle = Idle()
    with ray_cluster(folder):
        import ray

        ray.init("auto", log_to_driver=False, logging_level="ERROR")
        up, address = start_run(folder, program)
        watched = Watched(program, address, idle.look)
        watched.until(lambda report: report["executors_wanted"] > 0, 10, "demand")
        found["nodes_before"] = ray_nodes(ray)
        start = time.monotonic()
        driver = start_driver(folder, address, "--idle", "2")
        watched.until(some, 40, "the first executor")
        found["first_executor_s"] = time.monotonic() - start
        watched.until(lambda report: executors(report) == NODES, 60, "three executors")
        found["all_executors_s"] = time.monotonic() - start
        found["nodes_at_most"] = ray_nodes(ray)
        killer = Killer(random.Random(26))
        watched.looks.append(killer.look)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            killer.kill()
            due = time.monotonic() + 10
            while time.monotonic() < due:
                watched.turn(0.1)
        if seconds:
            watched.until(
                lambda report: executors(report) == NODES, 60, "three executors after the last kill"
            )
        found["kills"], found["nodes_last"] = killer.kills, ray_nodes(ray)
        watched.until(lambda report: report["measurements"] > 10, 20, "measurements")
        start = time.monotonic()
        found["down"] = subprocess.run([program, "down", address, "--insecure"]).returncode
        found["run"] = ended(up, 40)
        found["run_ended_s"] = time.monotonic() - start
        found["driver"] = ended(driver, 40)
        found["driver_ended_s"] = time.monotonic() - start
        wait_for(lambda: ray_nodes(ray) == 0, 60, "no nodes")
        found["no_nodes_s"] = time.monotonic() - start
        found["idle_s"] = idle.longest_s
        found["joins_left"] = joins()
        ray.shutdown()
    return found


def scenario_launched(folder: Path, program: str, seconds: float) -> Json:
    """`emplace up --on ray`: the driver is killed, then another run's launcher is."""
    found: Json = {}
    with ray_cluster(folder):
        up, address = start_run(folder, program, "--on", "ray", executors='roles = ["executor"]', host="*")
        watched = Watched(program, address)
        found["first_executor_s"] = watched.until(some, 60, "an executor")
        before = names(watched.newest)
        (driver,) = processes("-m emplace.ray")
        old = joins()
        os.kill(driver, signal.SIGKILL)
        start = time.monotonic()
        wait_for(lambda: not set(old) & set(joins()), 10, "no executor without its driver")
        found["gone_with_driver_s"] = time.monotonic() - start
        watched.until(lambda report: bool(names(report) - before), 60, "executors of the next driver")
        found["back_s"] = time.monotonic() - start
        start = time.monotonic()
        found["down"] = subprocess.run([program, "down", address, "--insecure"]).returncode
        found["run"] = ended(up, 40)
        found["ended_s"] = time.monotonic() - start
        found["left"] = joins() + processes("-m emplace.ray")

        shutil.rmtree(folder / "run")
        up, address = start_run(folder, program, "--on", "ray", executors='roles = ["executor"]')
        watched = Watched(program, address)
        watched.until(some, 60, "an executor")
        up.kill()
        start = time.monotonic()
        wait_for(
            lambda: not joins() + processes("-m emplace.ray") + processes(" node --config"), 20, "nothing"
        )
        found["gone_with_launcher_s"] = time.monotonic() - start
    return found


def scenario_ended(folder: Path, program: str, seconds: float) -> Json:
    """A driver is asked to end, one is killed; a run without a driver continues."""
    found: Json = {}
    with ray_cluster(folder):
        up, address = start_run(folder, program)
        watched = Watched(program, address)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            driver = start_driver(folder, address)
            watched.until(some, 60, "an executor")
            driver.send_signal(number)
            start = time.monotonic()
            found[number.name] = ended(driver, 20)
            wait_for(lambda: not joins(), 10, "no executor without its driver")
            found[number.name]["gone_s"] = time.monotonic() - start
            watched.until(none, 10, "the run knows that they left")
        driver = start_driver(folder, address)
        watched.until(some, 60, "an executor")
        found["down"] = subprocess.run([program, "down", address, "--insecure"]).returncode
        found["run"] = ended(up, 40)
        found["driver"] = ended(driver, 40)
        found["left"] = joins() + processes("-m emplace.ray")
    return found


def scenario_refused(folder: Path, program: str, seconds: float) -> Json:
    """No Ray, a wrong address, a bundle that fits no node: the run continues."""
    found: Json = {}
    up, address = start_run(folder, program)
    for name, where in (("no cluster", "auto"), ("no listener", "127.0.0.1:6400")):
        driver = start_driver(folder, address, "--ray-address", where, log=f"{name}.log")
        found[name] = ended(driver, 60)
        found[name]["error"] = (folder / f"{name}.log").read_text().strip().splitlines()[-1]
    with ray_cluster(folder):
        driver = start_driver(folder, address, "--num-cpus", "64")
        shortage = wait_for(lambda: _line(folder / "driver.log", "no node of"), 60, "the shortage")
        found["too large"] = shortage
        driver.terminate()
        ended(driver, 20)
        driver = start_driver(folder, address)
        watched = Watched(program, address)
        watched.until(some, 60, "an executor")
        found["run continues"] = up.poll() is None
        subprocess.run([program, "down", address, "--insecure"])
        ended(up, 40)
        ended(driver, 40)
    return found


def _line(log: Path, part: str) -> str:
    return next((line for line in log.read_text().splitlines() if part in line), "")


def scenario_local(folder: Path, program: str, seconds: float) -> Json:
    """A Ray that the driver starts on this machine and takes with it, and a run with keys."""
    found: Json = {}
    os.environ["RAY_TMPDIR"] = str(folder)
    keygen = [program, "keygen", str(folder / "keys")]
    subprocess.run(keygen, check=True, stdout=subprocess.DEVNULL)
    roles = ["--role", "executor", "--role", "operator", "--name", "ray"]
    subprocess.run([*keygen, *roles], check=True, stdout=subprocess.DEVNULL)
    up, address = start_run(folder, program, key=f"{folder}/keys/head.key")
    watched = Watched(program, str(folder / "run"), access=[])
    bundle = ["--ray-address", "local", "--num-cpus", "0.5", "--executors-per-actor", "2", "--max", "2"]
    for kind in ("killed", "ended"):
        driver = start_driver(folder, address, *bundle, access=["--key", str(folder / "keys/ray.key")])
        watched.until(some, 60, "an executor")
        watched.until(lambda report: report["executors"] == 2, 10, "two executors")
        found["secrets"] = secrets(folder)
        if kind == "killed":
            driver.kill()
            watched.until(none, 20, "the run knows that they left")
        else:
            found["down"] = subprocess.run([program, "down", str(folder / "run")]).returncode
            found["run"] = ended(up, 40)
        found[kind] = ended(driver, 40)
        words = ["raylet/raylet", "gcs/gcs_server", "ray::Joiner"]  # Ray's agents wait a minute for it.
        wait_for(lambda: not joins() + [pid for word in words for pid in processes(word)], 30, "no Ray")
    return found


def secrets(folder: Path) -> list[str]:
    """Files other than the key's own, and command lines, with the secret half of the key."""
    text = (folder / "keys/ray.key").read_text()
    (secret,) = (line.split('"')[1] for line in text.splitlines() if line.startswith("secret"))
    found = [str(pid) for pid in processes(secret)]
    for root, _, names in os.walk(folder):
        for path in (Path(root, name) for name in names if name != "ray.key"):
            with contextlib.suppress(OSError):
                if path.is_file() and path.stat().st_size < 1 << 22:
                    found += [str(path)] if secret.encode() in path.read_bytes() else []
    return found


def scenario_head(folder: Path, program: str, seconds: float) -> Json:
    """The head of Ray dies with all its nodes, and another one comes: the run continues by itself."""
    found: Json = {}
    with ray_cluster(folder):
        up, address = start_run(folder, program, "--on", "ray", executors='roles = ["executor"]')
        watched = Watched(program, address)
        watched.until(some, 60, "an executor")
        for word in ("gcs_server", "raylet/raylet", "monitor.py"):
            for pid in processes(word):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        start = time.monotonic()
        watched.until(none, 60, "the executors are gone")
        found["gone_s"] = time.monotonic() - start
        wait_for(lambda: "trying again" in (folder / "up.log").read_text(), 120, "the driver tries again")
        found["trying_s"] = time.monotonic() - start
    with ray_cluster(folder):
        start = time.monotonic()
        watched.until(some, 120, "an executor on the next Ray")
        found["back_s"] = time.monotonic() - start
        found["down"] = subprocess.run([program, "down", address, "--insecure"]).returncode
        found["run"] = ended(up, 40)
        found["left"] = joins() + processes("-m emplace.ray")
    return found


class Killer:
    """SIGKILL of actors and of raylets that have one, in turns."""

    def __init__(self, rng: random.Random) -> None:
        self.kills: list[Json] = []
        self._rng = rng
        self._known: set[str] = set()
        self._waiting: list[tuple[Json, float]] = []

    def kill(self) -> None:
        """Kills one."""
        raylets = [pid for pid in processes("/raylet/raylet ") if "CPU,1" in _command(pid)]
        kind = "raylet" if len(self.kills) % 2 else "actor"
        victims = raylets if kind == "raylet" else processes("ray::Joiner")
        if not victims:
            return
        self.kills.append({"kind": kind, "replaced_s": None})
        self._waiting.append((self.kills[-1], time.monotonic()))
        os.kill(self._rng.choice(sorted(victims)), signal.SIGKILL)

    def look(self, report: Json, now: float) -> None:
        """A node that was never seen replaces the oldest victim."""
        nodes = names(report)
        for _ in nodes - self._known if self._known else ():
            if self._waiting:
                kill, at = self._waiting.pop(0)
                kill["replaced_s"] = now - at
        self._known |= nodes


def main() -> None:
    folder, scenario, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    found = globals()[f"scenario_{scenario}"](folder, os.environ["EMPLACE_PROGRAM"], seconds)
    print("\n" + json.dumps(found), flush=True)
    # The rest of Ray ends with this process, the first of its namespace.


if __name__ == "__main__":
    main()

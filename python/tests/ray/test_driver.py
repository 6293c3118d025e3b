"""The driver with the real program, but without Ray: actors are objects of this process."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import world

from emplace.errors import EmplaceError
from emplace.program import find_program
from emplace.ray.cluster import Bundle, Gone, Order, Placed, RayCluster
from emplace.ray.crew import Process
from emplace.ray.driver import Driver, Stop, address_for_nodes
from emplace.ray.joining import Joiner
from emplace.ray.options import parse


class LocalCluster(RayCluster):
    """Actors without Ray: a thread each."""

    def __init__(self, bundle: Bundle, post: Callable[[Placed | Gone], None]) -> None:
        super().__init__(bundle, post)
        self.joiners: dict[int, Joiner] = {}
        self.room = 100
        self.pids: list[int] = []

    def connect(self, address: str) -> str:
        return "127.0.0.1"

    def start(self, number: int, order: Order) -> None:
        if len(self.joiners) < self.room:
            self.joiners[number] = Joiner()
            threading.Thread(target=self._run, args=(number, order), daemon=True).start()

    def _run(self, number: int, order: Order) -> None:
        joiner = self.joiners[number]
        facts = joiner.start(order.programs, order.words, order.key, order.environment)
        if "failure" in facts:
            return self._post(Gone(number, facts["failure"]))
        self.pids.append(facts["pid"])
        self._post(Placed(number, Process(facts["host"], facts["pid"]), facts["node"]))
        ended = joiner.wait()
        self._post(Gone(number, "" if ended["status"] == 0 else ended["last"]))

    def drain(self, number: int) -> None:
        self.joiners[number].drain()

    def release(self, number: int) -> None:
        if joiner := self.joiners.pop(number, None):
            joiner.drain()  # The death of an actor ends its process.

    def close(self) -> None:
        for number in list(self.joiners):
            self.release(number)

    def _shortage(self, pending: int) -> str:
        return f"no room for {pending}"


class Driven:
    """A driver on a thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
        self.notes: list[str] = []
        self.reports: list[str] = []
        self.outcome: Any = None
        # Signals belong to the main thread.
        monkeypatch.setattr(Driver, "_listen", lambda self: None)
        monkeypatch.setattr(Driver, "_listen_to_signals", lambda self: None)
        self.driver = Driver(
            parse(arguments, dict(os.environ)), self.notes.append, self.reports.append, self._make
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _make(self, *words: Any) -> RayCluster:
        self.cluster = LocalCluster(*words)
        return self.cluster

    def _run(self) -> None:
        try:
            self.outcome = self.driver.run()
        except EmplaceError as error:
            self.outcome = error

    def stop(self) -> None:
        self.driver._events.put(Stop())

    def finish(self, seconds: float = 20.0) -> Any:
        self.thread.join(seconds)
        assert not self.thread.is_alive(), self.notes
        return self.outcome


class Run:
    """A run whose executors come from outside."""

    def __init__(self, folder: Path, program: str) -> None:
        self.program = program
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.process, self.address = world.start_run(folder, program, port=port)
        self.watched = world.Watched(program, self.address)

    def down(self) -> world.Json:
        world.subprocess.run([self.program, "down", self.address, "--insecure"], check=True)
        return world.ended(self.process, 30)

    def close(self) -> None:
        self.watched.close()
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    try:
        program = str(find_program())
    except EmplaceError as error:
        pytest.skip(str(error))
    one = Run(tmp_path, program)
    yield one
    one.close()


def test_follows_the_demand_of_a_run_and_ends_with_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(monkeypatch, [run.address, "--insecure", "--idle", "2"])
    run.watched.until(lambda report: world.executors(report) == 3, 30, "three executors")
    result = run.down()
    assert driven.finish() == 0
    assert result["status"] == 0 and result["lost"] == 0 and result["duplicated"] == 0
    summary = driven.driver.summary()
    assert summary["most_actors"] == 3 and summary["actors_started"] == 3 and summary["failures"] == 0
    assert not [pid for pid in driven.cluster.pids if Path(f"/proc/{pid}/exe").exists()]


def test_a_head_that_listens_everywhere_is_reached_by_the_address_that_ray_knows(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere = run.address.replace("127.0.0.1", "0.0.0.0")
    driven = Driven(monkeypatch, [everywhere, "--insecure", "--max", "1", "--watch", run.address])
    run.watched.until(world.some, 30, "an executor")
    driven.stop()
    assert driven.finish() == 0
    with pytest.raises(EmplaceError, match="is no address for other machines"):
        address_for_nodes("tcp://*:5555", "")


def test_a_driver_that_stops_gives_all_leases_back(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(monkeypatch, [run.address, "--insecure", "--max", "2"])
    run.watched.until(lambda report: world.executors(report) == 2, 30, "two executors")
    driven.stop()
    start = time.monotonic()
    assert driven.finish() == 0
    assert time.monotonic() - start < 3
    assert max(driven.driver.summary()["drained_s"]) < 1
    run.watched.until(world.none, 10, "they are gone")
    assert run.watched.newest["lost"] == 0
    assert run.watched.newest["leases"]["expired"] == 0


def test_a_dead_actor_is_replaced_without_loss(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(monkeypatch, [run.address, "--insecure", "--max", "1"])
    run.watched.until(world.some, 30, "an executor")
    first = driven.cluster.pids[0]
    driven.cluster.joiners[1].drain()  # Its process ends by itself, without an error.
    run.watched.until(
        lambda report: any(node["pid"] not in (first, 0) for node in nodes(report)), 20, "another"
    )
    assert driven.driver.summary()["actors_started"] == 2
    assert run.down()["lost"] == 0
    assert driven.finish() == 0


def nodes(report: world.Json) -> list[world.Json]:
    return [node for node in report["nodes"] if node["executors"] > 0]


def test_a_missing_program_does_not_end_the_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven(monkeypatch, [run.address, "--insecure", "--program", "/no/such/emplace"])
    world.wait_for(lambda: driven.driver.summary()["failures"] >= 2, 20, "two failures")
    found = [note for note in driven.notes if "no program emplace (tried /no/such/emplace)" in note]
    assert len(found) == 1
    assert run.process.poll() is None
    driven.stop()
    assert driven.finish() == 0


def test_a_cluster_without_room_is_reported_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emplace.ray.driver._SHORTAGE_S", 0.5)
    driven = Driven(monkeypatch, [run.address, "--insecure"])
    world.wait_for(lambda: hasattr(driven, "cluster"), 5, "a cluster")
    driven.cluster.room = 0
    world.wait_for(lambda: any("no room" in note for note in driven.notes), 20, "a note")
    driven.stop()
    assert driven.finish() == 0


def test_an_address_without_a_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("emplace.program")
    try:
        find_program()
    except EmplaceError as error:
        pytest.skip(str(error))
    driven = Driven(monkeypatch, ["tcp://127.0.0.1:1", "--insecure"])
    outcome = driven.finish()
    assert isinstance(outcome, EmplaceError) and "no message from the head for 8 s" in str(outcome)
    driven = Driven(monkeypatch, ["nowhere", "--insecure"])
    outcome = driven.finish()
    assert isinstance(outcome, EmplaceError) and "not the address of a head" in str(outcome)

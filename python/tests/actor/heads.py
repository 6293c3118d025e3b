"""Heads for tests: the real program, started as a user starts it, and a fake one that sends what
a test wants.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from emplace.errors import EmplaceError
from emplace.program import find_program
from emplace.wire.codec import Message
from emplace.wire.frames import Envelope, Incoming, Outgoing, messages_of
from emplace.wire.messages import Bye, Hello, Welcome

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / "python"
EXAMPLES = PYTHON / "examples"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Waits until something is true; the test fails after `seconds`."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
    return found


def contained(command: list[str]) -> list[str]:
    """In a PID namespace where the system permits it: the end of a process there ends its children, and no
    other process.
    """
    unshare = shutil.which("unshare")
    if unshare and os.geteuid() == 0:
        return [unshare, "-pf", "--mount-proc", "--kill-child", *command]
    return command


def program() -> str:
    try:
        return str(find_program())
    except EmplaceError as error:
        pytest.skip(str(error))


class Head:
    """`emplace up` of a small run."""

    def __init__(self, folder: Path, config: str, cluster: str = "", key: Path | None = None) -> None:
        self.folder, self.endpoint = folder, f"tcp://127.0.0.1:{free_port()}"
        (folder / "run.toml").write_text(config)
        security = "" if key else "insecure = true\n"
        text = f'[run]\nconfig = "run.toml"\n[head]\nendpoint = "{self.endpoint}"\n{security}{cluster}'
        (folder / "cluster.toml").write_text(text)
        command = [program(), "up", str(folder / "cluster.toml"), "--run-dir", str(folder / "run"), "--json"]
        command += ["--key", str(key)] if key else []
        self.log = (folder / "up.log").open("w+")
        self.process = subprocess.Popen(
            contained(command), stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        wait_for(lambda: "the head listens" in self.up_log() or self.process.poll() is not None)
        assert self.process.poll() is None, self.up_log()

    def up_log(self) -> str:
        return (self.folder / "up.log").read_text()

    def logged(self) -> str:
        return "".join(path.read_text() for path in (self.folder / "run" / "log").glob("*"))

    def result(self, killed: bool = False) -> dict[str, Any]:
        """Waits for the end of the run. Its leases must balance, nothing is counted twice, and nothing is
        lost: the program calls a lease lost that expired, as those of a killed executor do before others
        get them.
        """
        out, _ = self.process.communicate(timeout=40)
        assert self.process.returncode == 0, self.up_log()
        found: dict[str, Any] = json.loads(out)
        leases = found["leases"]
        assert leases["issued"] == leases["counted"] + leases["open"] + leases["expired"] + leases["refused"]
        assert found["duplicated"] == 0 and found["lost"] == leases["expired"], found
        assert killed or found["lost"] == 0, found
        return found

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()


@contextlib.contextmanager
def head(folder: Path, config: str, cluster: str = "", key: Path | None = None) -> Iterator[Head]:
    one = Head(folder, config, cluster, key)
    try:
        yield one
    finally:
        one.close()


def config(
    graph: str = "cifar10_cnn-bs32.json.gz", method: str = "random", executors: int = 1, **run: int
) -> str:
    """A run that ends after a number of episodes."""
    limits = "\n".join(f"{key} = {value}" for key, value in run.items())
    path = graph if graph.startswith("/") else ROOT / "configs" / "graphs" / graph
    return f"""
[run]
seed = 1
budget = "60s"
{limits}
[input]
graph = "{path}"
devices = "{ROOT}/configs/devices/quickstart.toml"
[pipeline]
controllers = 1
max_outstanding = 8
[executor]
count = {executors}
[policy]
method = "{method}"
[compare]
methods = ["single-gpu"]
"""


ELSEWHERE = '[[node]]\nname = "{name}"\nroles = ["{role}"]\nstart = "join"\n'


def python(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A Python process that can be killed with all that it started."""
    known = (
        os.environ
        | {"PYTHONPATH": str(PYTHON), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        | environment
    )
    return subprocess.Popen(
        contained([sys.executable, *arguments]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=known,
    )


class FakeHead:
    """A ROUTER that greets nodes and sends what a test wants."""

    def __init__(self) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.endpoint = f"tcp://127.0.0.1:{self.socket.bind_to_random_port('tcp://127.0.0.1')}"
        self.hellos: list[Hello] = []
        self.received: list[tuple[int, Incoming]] = []  # Pairs of plane and message.
        self.identities: dict[int, bytes] = {}  # The newest connection of each plane.
        self.welcomes = True
        self.seq = [1, 1]

    def turn(self) -> None:
        """Handles what has arrived."""
        while self.socket.poll(0):
            identity, *parts = self.socket.recv_multipart()
            for incoming in messages_of(parts):
                plane = "cd".index(identity.decode()[-1])
                if incoming.number != Hello.NUMBER:
                    self.received.append((plane, incoming))
                    continue
                hello = incoming.read(Hello)
                assert identity.decode() == f"{hello.node}-{hello.epoch:016x}-{'cd'[hello.plane]}"
                self.hellos.append(hello)
                self.identities[plane] = identity
                if self.welcomes:
                    self.seq[plane] = 1
                    self.send(plane, Welcome("head", hello.epoch, plane, 1, ["dispatcher/0", "library/0"]))

    def send(
        self, plane: int, message: Message, to: int = 0, seq: int | None = None, bulk: bytes = b""
    ) -> None:
        """Sends at once; messages of actors get the next number of their plane, or `seq`."""
        number = 0
        if message.NUMBER < 0xFF00:
            number = self.seq[plane] if seq is None else seq
            self.seq[plane] = number + 1
        body = Outgoing.of(message, 0, to, bulk)
        sent = Outgoing(Envelope(message.NUMBER, 7, to, number), body.body, bulk)
        self.socket.send_multipart([self.identities[plane], *sent.parts()])

    def refuse(self, reason: str, final: bool) -> None:
        for plane in self.identities:
            self.send(plane, Bye(reason, True, final))

    def of(self, cls: type[Message]) -> list[Message]:
        return [incoming.read(cls) for _, incoming in self.received if incoming.number == cls.NUMBER]

    def close(self) -> None:
        self.socket.close(0)
        self.context.term()

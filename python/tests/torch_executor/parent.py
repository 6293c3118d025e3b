"""A parent of an executor process, as the program is one: socket at descriptor 3, records of MessagePack."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from emplace.torch_executor.channel import Channel
from emplace.wire.codec import REGISTER, Message, Section, pack
from emplace.wire.executor_messages import DeviceFacts, ExecutorBeat, PrepareExecutor, RunPlacement

PYTHON = Path(__file__).parents[2]


class Parent:
    """Starts ``python -m emplace.torch_executor`` and exchanges messages with it."""

    def __init__(self, *options: str, folder: Path | None = None) -> None:
        ours, theirs = socket.socketpair()
        environment = {
            **os.environ,
            "PYTHONPATH": f"{PYTHON}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            "OMP_WAIT_POLICY": "passive",
            "OMP_NUM_THREADS": "1",
        }
        keep = os.dup(3) if _is_open(3) else -1
        os.dup2(theirs.fileno(), 3, inheritable=True)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "emplace.torch_executor", f"--parent={os.getpid()}", *options],
                pass_fds=[3],
                stderr=subprocess.PIPE,
                env=environment,
                cwd=folder,
            )
        finally:
            if keep >= 0:
                os.dup2(keep, 3)
                os.close(keep)
            else:
                os.close(3)
            theirs.close()
        self.socket = ours
        self.channel = Channel(ours)
        self.beats: list[int] = []
        self.silences: list[float] = []
        self._last = time.monotonic()

    def prepare(self, document: dict[str, Any], devices: list[DeviceFacts]) -> Any:
        """Sends the graph; the answer, ready or refused."""
        bulk = pack(document)
        request = PrepareExecutor(
            graph_sha256="0" * 64,
            graph=Section(0, len(bulk)),
            devices=devices,
            link_shaped=np.zeros(len(devices) ** 2, np.uint8),
            warmups=1,
            samples=3,
            most_samples=3,
            seed=1,
        )
        self.channel.send(request, bulk)
        return self.answer()

    def run(self, number: int, task: int, placement: bytes) -> Any:
        """The answer to a request."""
        self.channel.send(RunPlacement(number, task, Section(0, len(placement))), placement)
        return self.answer()

    def receive(self) -> Message:
        """The next message."""
        incoming = self.channel.receive()
        return incoming.read(REGISTER[incoming.number])

    def answer(self, seconds: float = 120) -> Message:
        """The next message that is no heartbeat."""
        end = time.monotonic() + seconds
        while True:
            assert select.select([self.socket], [], [], max(0.0, end - time.monotonic()))[0], "no answer"
            message = self.receive()
            if not isinstance(message, ExecutorBeat):
                return message
            now = time.monotonic()
            self.silences.append(now - self._last)
            self._last = now
            self.beats.append(message.progress)

    def close(self) -> tuple[int, str]:
        """Closes the channel; the exit status and the last of standard error."""
        self.socket.close()
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors.decode()


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
        return True
    except OSError:
        return False


def device(name: str, memory_bytes: int = 1 << 40, kind: str = "cpu") -> DeviceFacts:
    """Facts of a device."""
    return DeviceFacts(name, profile="cpu", kind=kind, memory_bytes=memory_bytes)


def as_json(value: Any) -> str:
    """A text for messages of asserts."""
    return json.dumps(value, default=str)[:2000]

"""The actor: one process ``emplace join`` and its end. It travels to the nodes by value, so that they need
Ray and the program ``emplace``, but not this package: nothing of it is imported here.
"""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import subprocess
import threading
from collections import deque
from typing import Any

# Ray kills the direct children of a worker that exits, e.g. because its raylet died. The process that takes
# part must then give its leases back first, so it is a grandchild: the shell is killed, and the end of its
# parent and of its standard input is what ends it (--die-with-parent). Prints the process number.
_SHELL = 'exec 3<&0; "$@" <&3 3<&- & echo $!; exec 3<&- </dev/null; wait $!'
_LINES_KEPT = 4


class Joiner:
    """Runs ``emplace join`` once. All methods but `wait` return at once; they may run at the same time."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._last: deque[str] = deque(maxlen=_LINES_KEPT)
        self._reader: threading.Thread | None = None
        self._failure = ""
        self._tried = threading.Event()

    def start(self, programs: list[str], words: list[str], key: bytes, environment: dict[str, str]) -> Any:
        """Starts it with the first of `programs` that is here, and returns ``{"host", "pid", "node"}``, or
        ``{"failure"}``. A key is not written to a disk: its path is a descriptor of the process.
        """
        try:
            self._failure = self._start(programs, words, key, environment)
        finally:
            self._tried.set()
        if self._failure or self._child is None:
            return {"failure": self._failure}
        return {"host": socket.gethostname(), "pid": self._pid, "node": self._ray_node()}

    def _start(self, programs: list[str], words: list[str], key: bytes, environment: dict[str, str]) -> str:
        """Returns why it failed; empty: it did not."""
        program = next((found for name in programs if (found := self._find(name))), None)
        if program is None:
            tried = ", ".join(name or "the package emplace" for name in programs)
            return f"{socket.gethostname()}: no program emplace (tried {tried}); install the wheel there"
        descriptors: list[int] = []
        if key:
            secret = os.memfd_create("key", 0)
            os.write(secret, key)
            os.fchmod(secret, 0o600)
            descriptors.append(secret)
            words = [*words, "--key", f"/proc/self/fd/{secret}"]
        try:
            self._child = subprocess.Popen(
                ["/bin/sh", "-c", _SHELL, "emplace-join", program, *words],
                env=os.environ | environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=descriptors,
                start_new_session=True,
            )
        except OSError as error:
            return f"{socket.gethostname()}: {program} cannot be started ({error.strerror})"
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        assert self._child.stdout is not None
        self._pid = int(self._child.stdout.readline())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return ""

    def wait(self) -> Any:
        """Waits for its start and its end: ``{"status", "last"}``, the exit status and its last line."""
        self._tried.wait()
        if self._child is None or self._reader is None:
            return {"status": 2, "last": self._failure}
        status = self._child.wait()
        self._reader.join(timeout=1.0)
        return {"status": status, "last": self._last[-1] if self._last else ""}

    def drain(self) -> None:
        """Closes its standard input: it gives its leases back and ends."""
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()

    def _read(self) -> None:
        """Keeps the last lines, and shows all in the actor's log."""
        assert self._child is not None and self._child.stderr is not None
        for raw in self._child.stderr:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            self._last.append(line)
            print(line, flush=True)

    @staticmethod
    def _ray_node() -> str:
        """The id of this node of Ray; empty outside an actor."""
        try:
            ray = importlib.import_module("ray")
        except ImportError:
            return ""
        return str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else ""

    @staticmethod
    def _find(name: str) -> str | None:
        """The path of a program; "" is the one of the package emplace, where that is installed."""
        if name:
            return shutil.which(name)
        try:
            from emplace.program import find_program

            return str(find_program())
        except Exception:  # Not installed here, or without the program.
            return None

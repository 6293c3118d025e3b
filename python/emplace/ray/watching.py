"""The demand of a run: ``emplace ps ADDRESS --watch --json``, a process that reports once a second."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from emplace.ray.crew import Node, Process, Status


@dataclass(frozen=True)
class Ended:
    """The watch has ended: status 0 at the end of the run. `error`: its last line."""

    status: int
    error: str


def status_of(report: dict[str, Any]) -> Status:
    """The part of a report that matters to the crew. Raises KeyError, TypeError or ValueError."""
    nodes = tuple(
        Node(
            Process(str(node["host"]), int(node["pid"])),
            int(node["executors"]),
            int(node["in_flight"]),
        )
        for node in report["nodes"]
        if int(node["executors"]) > 0
    )
    ending = bool(report.get("ending", ""))
    return Status(int(report["executors_wanted"]), int(report["executors"]), nodes, ending)


def reports_in(stream: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    r"""The JSON objects in a stream of lines; each ends with a line of one brace.

    >>> list(reports_in([b"{\n", b'  "a": {\n', b"  }\n", b"}\n", b"{\n"]))
    [{'a': {}}]
    """
    lines: list[bytes] = []
    for line in stream:
        lines.append(line)
        if line.rstrip(b"\n") == b"}":
            try:
                report = json.loads(b"".join(lines))
            except ValueError:
                report = {}
            lines.clear()
            yield report


class Watch:
    """One ``emplace ps --watch``. `post` is called on threads of its own. It dies with this process, whose
    end closes its standard output.
    """

    def __init__(self, command: Sequence[str], post: Callable[[Status | Ended], None]) -> None:
        self._post = post
        try:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,
            )
        except OSError as error:
            post(Ended(2, f"{command[0]}: cannot be started ({os.strerror(error.errno or 0)})"))
            return
        assert self._child.stdout is not None and self._child.stderr is not None
        threading.Thread(
            target=self._read, args=(self._child.stdout, self._child.stderr), daemon=True
        ).start()

    def stop(self) -> None:
        """Ends it; `Ended` follows."""
        if hasattr(self, "_child") and self._child.poll() is None:
            self._child.terminate()

    def _read(self, reports: IO[bytes], errors: IO[bytes]) -> None:
        last: list[str] = []
        aside = threading.Thread(target=lambda: last.extend(_lines(errors)), daemon=True)
        aside.start()
        for report in reports_in(reports):
            try:
                status = status_of(report)
            except (KeyError, TypeError, ValueError):
                continue  # The program is too old or too new.
            self._post(status)
        status_code = self._child.wait()
        aside.join()
        last_line = next((line for line in reversed(last) if line), "")
        self._post(Ended(status_code, last_line.removeprefix("error: ")))


def _lines(stream: IO[bytes]) -> list[str]:
    return stream.read().decode("utf-8", "replace").splitlines()

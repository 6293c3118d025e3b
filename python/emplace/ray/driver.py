"""The driver: brings demand, crew and cluster together, until the run or the driver ends."""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from emplace.errors import EmplaceError
from emplace.program import error_of, find_program
from emplace.ray.cluster import Bundle, Gone, Order, Placed, RayCluster
from emplace.ray.crew import Crew, Drain, Node, Process, Release, Start, State, Status
from emplace.ray.options import Options, parse

_WATCH_AGAIN_S = 1.0
_RAY_AGAIN_S = 5.0
_SHORTAGE_S = 10.0
_SHUTDOWN_GRACE_S = 2.0
_SLOW_S = 5.0


@dataclass(frozen=True)
class Stop:
    """The driver is asked to end. `signal`: 0 for the end of standard input."""

    signal: int = 0


@dataclass(frozen=True)
class Shortage:
    """Why actors wait for a node."""

    text: str


@dataclass(frozen=True)
class Ended:
    """The watch has ended: status 0 at the end of the run. `error`: its last line."""

    status: int
    error: str


Event = Status | Ended | Placed | Gone | Stop | Shortage


def address_for_nodes(address: str, here: str) -> str:
    """The address of a head that listens at all addresses of this machine, by the one that Ray's nodes know.
    Raises EmplaceError if they know none.

    >>> address_for_nodes("tcp://0.0.0.0:5555", "10.0.0.7"), address_for_nodes("tcp://head:5555", "10.0.0.7")
    ('tcp://10.0.0.7:5555', 'tcp://head:5555')
    """
    for anywhere in ("tcp://0.0.0.0:", "tcp://*:"):
        if address.startswith(anywhere):
            if not here:
                cure = 'set dial = "tcp://HOST:PORT", an address that the nodes of Ray can connect to'
                raise EmplaceError(address, "is no address for other machines", cure)
            return f"tcp://{here}:{address.removeprefix(anywhere)}"
    return address


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
    """The demand of a run: one ``emplace ps --watch --json``, which reports once a second. `post` is called
    on a thread of its own. It dies with this process, whose end closes its standard output.
    """

    def __init__(self, command: Sequence[str], post: Callable[[Status | Ended], None]) -> None:
        self._post = post
        self._errors = tempfile.TemporaryFile()
        try:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                process_group=0,
            )
        except OSError as error:
            post(Ended(2, f"{command[0]}: cannot be started ({error.strerror})"))
            return
        assert self._child.stdout is not None
        threading.Thread(target=self._read, args=(self._child.stdout,), daemon=True).start()

    def stop(self) -> None:
        """Ends it; `Ended` follows."""
        if hasattr(self, "_child") and self._child.poll() is None:
            self._child.terminate()

    def _read(self, reports: IO[bytes]) -> None:
        for report in reports_in(reports):
            with contextlib.suppress(KeyError, TypeError, ValueError):  # The program is too old or too new.
                self._post(status_of(report))
        status = self._child.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        self._post(Ended(status, next(filter(None, reversed(lines)), "").removeprefix("error: ")))


class Driver:
    """Follows the demand. All state belongs to the thread of `run`; others post events."""

    def __init__(
        self,
        options: Options,
        note: Callable[[str], None],
        report: Callable[[str], None],
        make: Callable[[Bundle, Callable[[Placed | Gone], None]], RayCluster] = RayCluster,
    ) -> None:
        self._options = options
        self._make = make
        self._note = note
        self._report = report
        # Unlike queue.Queue it may be filled by a signal handler.
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._crew = Crew(options.limits)
        self._last_note = ""
        self._reported: set[str] = set()
        self._stopped: Stop | None = None
        self._watch: Watch | None = None
        self._watch_at_s: float | None = None
        self._seen = self._ending = self._connected = self._demanded = False
        self._failure: EmplaceError | None = None
        self._most_actors = self._failures = 0
        self._drains: dict[int, float] = {}
        self._drained_s: list[float] = []
        self._asked_s = -math.inf

    def run(self) -> int:
        """Runs to the end; returns the exit status. Raises EmplaceError if it cannot start."""
        options = self._options
        program = str(find_program())
        self._cluster = self._make(options.bundle, self._events.put)
        self._listen()
        here = self._connect()
        if here is None:
            return self._status()
        environment = {name: os.environ[name] for name in options.environment}
        words = ["join", address_for_nodes(options.address, here), *options.join, "--die-with-parent"]
        self._order = Order(options.programs, words, options.key, environment)
        self._listen_to_signals()  # Ray has installed its own handlers.
        self._command = [program, "ps", options.watch, *options.access, "--watch", "--json"]
        self._start_watch()
        if options.for_launcher:
            self._report(json.dumps({"ready": ""}))
        try:
            while not self._crew.closed:
                self._handle(self._next())
                self._act()
        finally:
            if self._watch is not None:
                self._watch.stop()
            self._cluster.close()
        if self._failure is not None:
            raise self._failure
        return self._status()

    def summary(self) -> dict[str, Any]:
        """What happened, as the JSON object of the command."""
        return {
            "actors_started": self._crew.starts,
            "most_actors": self._most_actors,
            "failures": self._failures,
            "drained_s": self._drained_s,
        }

    # Events.

    def _next(self) -> Event | None:
        """The next event; None when something is due without one."""
        now = time.monotonic()
        due = [self._crew.next_s(now), self._watch_at_s]
        pending = [one.born_s for one in self._crew.members.values() if one.state == State.PENDING]
        if pending:
            due.append(max(min(pending), self._asked_s) + _SHORTAGE_S)
        times = [one for one in due if one is not None]
        try:
            return self._events.get(timeout=max(0.0, min(times) - now) if times else None)
        except queue.Empty:
            return None

    def _handle(self, event: Event | None) -> None:
        now = time.monotonic()
        if isinstance(event, Status):
            self._on_status(event, now)
        elif isinstance(event, Placed):
            self._crew.on_started(event.number, event.process, event.ray_node)
        elif isinstance(event, Gone):
            self._on_gone(event, now)
        elif isinstance(event, Ended):
            self._on_watch_ended(event, now)
        elif isinstance(event, Shortage):
            self._note_once(event.text)
        elif isinstance(event, Stop) and self._stopped is None:
            self._stopped = event
            self._crew.close()

    def _on_status(self, status: Status, now: float) -> None:
        self._seen, self._ending = True, status.ending
        self._demanded |= status.wanted > 0
        self._crew.on_status(status, now)

    def _on_gone(self, gone: Gone, now: float) -> None:
        member = self._crew.members.get(gone.number)
        self._cluster.release(gone.number)
        if member is None:
            return
        drain_start_s = self._drains.pop(gone.number, None)
        if drain_start_s is not None:
            self._drained_s.append(now - drain_start_s)
        elif gone.failure:
            self._failures += 1
            if gone.failure not in self._reported:  # A lasting cause would be reported every time.
                self._reported.add(gone.failure)
                self._note(f"actor {gone.number}: {gone.failure}")
        self._crew.on_ended(gone.number, now)

    def _on_watch_ended(self, ended: Ended, now: float) -> None:
        """The run is over, its head is being restarted, or it cannot be asked."""
        self._watch = None
        if self._crew.closing:
            return
        if self._options.for_launcher or (self._seen and ended.status == 0 and not self._ending):
            if ended.status == 2:
                self._note_once(f"the demand is not known: {ended.error}")
            self._seen = False  # The head may come back. The launcher reports when the run is over.
            self._watch_at_s = now + _WATCH_AGAIN_S
            return
        if ended.status == 2 or (not self._demanded and ended.status != 0):
            self._failure = error_of(ended.error, ended.status, "ps", [self._options.watch])
        self._crew.close()

    # Actions.

    def _act(self) -> None:
        now = time.monotonic()
        for action in self._crew.actions(now):
            if isinstance(action, Start):
                self._cluster.start(action.number, self._order)
            elif isinstance(action, Drain):
                self._drains[action.number] = now
                self._cluster.drain(action.number)
            else:
                self._release(action)
        members = self._crew.members.values()
        self._most_actors = max(self._most_actors, len(members))
        pending = [one for one in members if one.state == State.PENDING]
        late = [one for one in pending if now - one.born_s >= _SHORTAGE_S]
        if late and now - self._asked_s >= _SHORTAGE_S:
            self._asked_s = now
            self._cluster.shortage(len(pending), lambda text: self._events.put(Shortage(text)))
        if self._watch is None and self._watch_at_s is not None and now >= self._watch_at_s:
            self._start_watch()
        if not self._crew.closing:
            working = sum(one.state == State.JOINED for one in members)
            self._note_once(
                f"{self._crew.target} actors wanted, {len(members)} there, {working} in the run", aside=True
            )

    def _release(self, action: Release) -> None:
        self._cluster.release(action.number)
        # A dead node of Ray reports the end of its actors late, or never.
        self._events.put(Gone(action.number, action.why))

    def _start_watch(self) -> None:
        self._watch_at_s = None
        self._watch = Watch(self._command, self._events.put)

    def _connect(self) -> str | None:
        """Connects to Ray, as `RayCluster.connect`; None if the driver was asked to end before. Raises
        EmplaceError.
        """
        while True:
            slow = threading.Timer(
                _SLOW_S, self._note, [f"Ray at '{self._options.ray_address}': no answer yet"]
            )
            slow.daemon = True
            slow.start()
            try:
                here = self._cluster.connect(self._options.ray_address)
                self._connected = True
                return here
            except EmplaceError as error:
                if not self._options.retry:
                    raise
                self._note_once(f"{error}; trying again")
            finally:
                slow.cancel()
            try:
                event = self._events.get(timeout=_RAY_AGAIN_S)
                if isinstance(event, Stop):
                    self._stopped = event
                    return None
            except queue.Empty:
                pass

    # Launcher and signals.

    def _listen(self) -> None:
        self._listen_to_signals()
        if self._options.for_launcher:
            threading.Thread(target=self._wait_for_launcher, daemon=True).start()

    def _listen_to_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda received, _: self._events.put(Stop(received)))

    def _wait_for_launcher(self) -> None:
        """Waits for the end of standard input."""
        poll = select.poll()
        poll.register(0, select.POLLIN)
        while poll.poll() and os.read(0, 4096):
            pass
        # The main thread may be in a call of Ray that does not return for a minute.
        if not self._connected:
            os._exit(0)
        self._events.put(Stop())
        late = threading.Timer(self._options.limits.drain_s + _SHUTDOWN_GRACE_S, os._exit, [0])
        late.daemon = True
        late.start()

    def _status(self) -> int:
        return 128 + self._stopped.signal if self._stopped is not None and self._stopped.signal else 0

    def _note_once(self, text: str, aside: bool = False) -> None:
        """Prints a line, if it differs from the one before."""
        if text != self._last_note and not (aside and self._options.for_launcher):
            self._last_note = text
            self._note(text)


def _apart(log: str) -> tuple[IO[str], IO[str]]:
    """Standard output and error for us alone: Ray prints to its own, which become the log, or both standard
    error. Raises EmplaceError."""
    out, err = os.fdopen(os.dup(1), "w"), os.fdopen(os.dup(2), "w")
    if log:
        try:
            printed = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise EmplaceError(log, f"cannot be written ({error.strerror})", "name another --log") from error
        os.dup2(printed, 2)
        os.close(printed)
    os.dup2(2, 1)
    return out, err


def main(arguments: list[str] | None = None) -> int:
    """The command. Returns its exit status."""
    out, err = sys.stdout, sys.stderr
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments, dict(os.environ))
        out, err = _apart(options.log)

        def report(text: str) -> None:
            with contextlib.suppress(BrokenPipeError):  # The launcher is gone; so is its standard input.
                print(text, file=out, flush=True)

        def note(text: str) -> None:
            """Prints a line; for the launcher as JSON, which it shows under the name of the node."""
            if options.for_launcher:
                return report(json.dumps({"note": text}))
            print(f"ray: {text}", file=err, flush=True)

        driver = Driver(options, note, report)
        status = driver.run()
    except EmplaceError as error:
        print(f"error: {error}", file=err, flush=True)
        return 2
    if options.json:
        print(json.dumps(driver.summary()), file=out, flush=True)
    return status

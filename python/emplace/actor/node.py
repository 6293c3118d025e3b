"""A node: the actors of one Python process, one loop for all of them, and the link to the head."""

from __future__ import annotations

import collections
import contextlib
import heapq
import importlib.metadata
import itertools
import math
import os
import random
import signal
import socket as sockets
import threading
import time
from collections.abc import Callable, Iterator

import xxhash
import zmq

from emplace.actor.access import Access
from emplace.actor.link import HEARTBEAT, Link
from emplace.errors import EmplaceError
from emplace.wire.codec import Message, WireError
from emplace.wire.frames import Incoming, Outgoing
from emplace.wire.messages import ActorStatus, Beat, NodeReported

try:
    VERSION = importlib.metadata.version("emplace-placement")  # The text that `emplace ps` shows.
except importlib.metadata.PackageNotFoundError:
    VERSION = "unpackaged"
DISPATCHER, RECORDER, TRACKER = "dispatcher/0", "recorder/0", "tracker/0"
VIEW, LIBRARY = "view/0", "library/0"
OVER = "the run is over"
_DRAIN = 5.0  # Time limit of a graceful end [s].
_REPORT = 1.0


def actor_id(name: str) -> int:
    """The number that addresses an actor on the wire; never 0, which addresses the node itself."""
    return xxhash.xxh3_64_intdigest(name.encode()) or 1


def host_name() -> str:
    return sockets.gethostname()[:40]


def agent_name(node: str) -> str:
    """The actor that every node has."""
    return f"node/{actor_id(node)}"


class Actor:
    """Receives and sends messages under a name. Every method runs on the loop of its node and must not
    wait.
    """

    node: Node
    name: str
    _epoch = 0

    def on_start(self) -> None:
        """The node starts."""

    def on_message(self, incoming: Incoming) -> None:
        """A message for this actor."""

    def on_directory(self, actor: str, reachable: bool) -> None:
        """Another actor of the run came or was lost."""

    def on_stop(self) -> None:
        """The node ends; messages sent here still leave."""

    def send(self, to: str | int, message: Message, bulk: bytes = b"") -> bool:
        """Sends to an actor, by name or by the sender's number of an earlier message. False: the queue is
        full.
        """
        target = actor_id(to) if isinstance(to, str) else to
        return self.node.link.send(Outgoing.of(message, actor_id(self.name), target, bulk))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.node.after(seconds, call)

    def next_epoch(self) -> int:
        """An incarnation greater than every earlier one on this machine."""
        self._epoch = max(self._epoch + 1, time.monotonic_ns())
        return self._epoch


class NodeAgent(Actor):
    """Reports the node to the view once a second, for `emplace ps`."""

    def on_start(self) -> None:
        self._started = time.monotonic()
        self._report()

    def _report(self) -> None:
        link, node = self.node.link, self.node
        report = NodeReported(
            node=node.name,
            host=host_name(),
            version=VERSION,
            pid=os.getpid(),
            uptime_s=time.monotonic() - self._started,
            peers_lost=link.lost,
            dropped=link.malformed + link.unknown + node.unroutable,
            sent=link.sent,
            received=node.received,
        )
        report.actors = [ActorStatus(actor.name, node.handled[actor.name]) for actor in node.actors.values()]
        self.send(VIEW, report)
        self.after(_REPORT, self._report)


class Node:
    """Runs actors until the run ends, stop() is called, or the head is gone."""

    def __init__(self, access: Access, name: str, patience: float = 10.0, timeout: float = 30.0) -> None:
        self.name = name
        self.actors: dict[int, Actor] = {}
        self.reachable: set[str] = set()
        self.handled: collections.Counter[str] = collections.Counter()
        self.received = self.unroutable = 0
        self.failure: EmplaceError | None = None
        self.link = Link(
            access,
            name,
            lambda: [actor.name for actor in self.actors.values()],
            patience,
            timeout,
            time.monotonic(),
        )
        self.link.on_joined, self.link.on_beat = self._on_joined, self._on_beat
        self.link.on_lost, self.link.on_head_left = self._on_lost, lambda reason: self.stop(OVER)
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._posted: collections.deque[Callable[[], None]] = collections.deque()
        self._wake_read, self._wake_write = sockets.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._reason: str | None = None
        self._at_end: list[Callable[[float], None]] = []

    def add(self, name: str, actor: Actor) -> None:
        """Adds an actor; before run()."""
        if actor_id(name) in self.actors:
            raise EmplaceError(f"actor {name}", "the name is taken", "names are unique in a run")
        actor.node, actor.name = self, name
        self.actors[actor_id(name)] = actor

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Calls on the loop, later."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), call))

    def post(self, call: Callable[[], None]) -> None:
        """Calls on the loop, soon. Thread: any; signal handlers too."""
        self._posted.append(call)
        with contextlib.suppress(OSError):  # Full: it wakes anyway. Closed: it has ended.
            self._wake_write.send(b"x")

    def at_end(self, call: Callable[[float], None]) -> None:
        """Calls when the node has ended, with the time until which the call may take."""
        self._at_end.append(call)

    def stop(self, reason: str) -> None:
        """Ends the node in order. Thread: any."""
        if self._reason is None:
            self._reason = reason
            self.post(lambda: None)

    def fail(self, error: EmplaceError) -> None:
        """Ends the node; run() raises `error`."""
        self.failure = self.failure or error
        self.stop(str(error))

    def run(self) -> str:
        """Runs the loop on this thread. Returns why it ended. Raises EmplaceError if the head is gone or
        refuses.
        """
        try:
            with self._signals():
                for actor in list(self.actors.values()):
                    actor.on_start()
                self._loop(lambda: self._reason is not None)
                for actor in self.actors.values():
                    actor.on_stop()
                self.link.send_bye(self._reason or "")
                deadline = time.monotonic() + _DRAIN
                self._loop(lambda: self.link.parted() or time.monotonic() > deadline, draining=True)
        finally:
            self.link.close()
            self._wake_read.close()
            self._wake_write.close()
            until = time.monotonic() + _DRAIN
            for call in self._at_end:
                call(until)
        if self.failure is not None:
            raise self.failure
        return self._reason or ""

    def _loop(self, done: Callable[[], bool], draining: bool = False) -> None:
        next_tick = next_beat = time.monotonic()
        while not done():
            self.link.flush()
            if done():
                break
            poller = zmq.Poller()
            poller.register(self._wake_read, zmq.POLLIN)
            for socket, events in self.link.pollable():
                poller.register(socket, events)
            due = min(
                [next_tick, *(timer[0] for timer in self._timers[:1]), self.link.next_dial() or next_tick]
            )
            poller.poll(0 if self._posted else max(0, math.ceil((due - time.monotonic()) * 1000)))
            now = time.monotonic()
            with contextlib.suppress(BlockingIOError):
                self._wake_read.recv(4096)
            self.link.dial_if_due(now)
            try:
                self.link.receive(self._deliver, now)
                self._run_due(now)
                if now >= next_tick:
                    if now - next_tick > HEARTBEAT:
                        self.link.skip_own_pause(now - next_tick, now)
                    beat = now >= next_beat
                    next_tick, next_beat = now + HEARTBEAT / 4, now + HEARTBEAT if beat else next_beat
                    self.link.tick(now, beat)
            except EmplaceError as error:
                if draining:
                    return  # It ends anyway.
                self.fail(error)

    def _run_due(self, now: float) -> None:
        while self._posted:
            self._posted.popleft()()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()

    def _deliver(self, incoming: Incoming) -> None:
        actor = self.actors.get(incoming.envelope.to)
        self.received += 1
        if actor is None:
            self.unroutable += 1
            return
        self.handled[actor.name] += 1
        try:
            actor.on_message(incoming)
        except WireError:
            self.link.malformed += 1

    # The directory.

    def _on_joined(self, actors: list[str]) -> None:
        for actor in [*actors]:
            self._announce(actor, True)

    def _on_beat(self, beat: Beat) -> None:
        for actor in beat.joined:
            self._announce(actor, True)
        for actor in beat.left:
            self._announce(actor, False)

    def _on_lost(self) -> None:
        for actor in list(self.reachable):
            self._announce(actor, False)

    def _announce(self, actor: str, reachable: bool) -> None:
        (self.reachable.add if reachable else self.reachable.discard)(actor)
        for own in list(self.actors.values()):
            own.on_directory(actor, reachable)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT, SIGTERM and (unless ignored) SIGHUP end the node in order."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {}
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, lambda got, _: self.stop(signal.Signals(got).name))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def random_number() -> int:
    """A number for names, unique with high probability."""
    return 1 + random.SystemRandom().randrange(1_000_000_000)

"""The two connections of a node to its head, and the session over them (docs/reference/wire_format.md,
"Sessions").

A link dials, greets, numbers what it sends, checks what it receives, beats, and dials again when the head
was lost. Thread: the loop of its node.
"""

from __future__ import annotations

import random
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

import zmq
from zmq.utils.monitor import recv_monitor_message

from emplace.actor.access import Access
from emplace.errors import EmplaceError
from emplace.wire.codec import REGISTER, Message, WireError
from emplace.wire.frames import (
    BATCH_BYTES,
    CONTROL,
    DATA,
    FIRST_RUNTIME_TYPE,
    MAX_FRAME_BYTES,
    OLDEST_VERSION,
    VERSION,
    Incoming,
    Outgoing,
    keeps_latest_only,
    messages_of,
    plane_of,
)
from emplace.wire.messages import Beat, Bye, ByeAck, Hello, Welcome

HEARTBEAT = 0.5  # Interval of beats [s].
MISSED_BEATS = 3  # A peer that is silent for longer is lost.
FRAMES_PER_TURN = 64
MAX_WAITING = 65_536  # Messages of one queue.
_HANDSHAKE_FAILURES = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


class _Queue:
    """What waits for one connection. Messages keep their numbers over sessions, so that only losses are
    gaps.
    """

    def __init__(self) -> None:
        self.waiting: deque[Outgoing] = deque()
        self.latest: dict[tuple[int, int, int], Outgoing] = {}
        self.next_seq = 1
        self.sent = 0

    def first_seq(self) -> int:
        return next((m.envelope.seq for m in self.waiting if m.envelope.seq), self.next_seq)

    def add(self, message: Outgoing) -> bool:
        """False if the queue is full."""
        head = message.envelope
        if keeps_latest_only(head.type):
            self.latest[head.type, head.sender, head.to] = message
            return True
        if len(self.waiting) >= MAX_WAITING:
            return False
        self._append(message)
        return True

    def _append(self, message: Outgoing) -> None:
        if message.envelope.type < FIRST_RUNTIME_TYPE:
            message = replace(message, envelope=replace(message.envelope, seq=self.next_seq))
            self.next_seq += 1
        self.waiting.append(message)

    def flush(self, socket: zmq.Socket[bytes]) -> bool:
        """Sends what ZeroMQ accepts. Returns False while something waits."""
        while self.waiting or self.latest:
            if not self.waiting:
                for message in self.latest.values():
                    self._append(message)
                self.latest.clear()
            batch, parts = self._batch()
            try:
                socket.send_multipart(parts, zmq.NOBLOCK)
            except zmq.Again:
                return False
            for _ in range(batch):
                self.sent += self.waiting.popleft().envelope.seq > 0
        return True

    def _batch(self) -> tuple[int, list[bytes]]:
        """The next ZeroMQ message, and how many messages are in it."""
        if self.waiting[0].is_large():
            return 1, self.waiting[0].parts()
        frame, count = bytearray(), 0
        for message in self.waiting:
            if message.is_large():
                break
            record = message.record()
            if frame and len(frame) + len(record) > BATCH_BYTES:
                break
            frame += record
            count += 1
        return count, [bytes(frame)]


class Link:
    """Session of a dialling node with its head. `events` are called on the loop."""

    def __init__(
        self,
        access: Access,
        node: str,
        actors: Callable[[], list[str]],
        patience: float,
        timeout: float,
        now: float,
    ) -> None:
        self.access, self.node, self.actors = access, node, actors
        self.patience, self.timeout = patience, timeout
        self.on_joined: Callable[[list[str]], None] = lambda actors: None
        self.on_beat: Callable[[Beat], None] = lambda beat: None
        self.on_lost: Callable[[], None] = lambda: None
        self.on_head_left: Callable[[str], None] = lambda reason: None
        self.gaps = self.repeats = self.malformed = self.unknown = self.lost = 0
        self.last_error = ""
        self.joined_once = self._refused = False
        self.run_is_over = False  # The head ended and reported that no other start of the run follows.
        self.connected = False
        self._context = zmq.Context()
        self._sockets: list[zmq.Socket[bytes]] = []
        self._monitors: list[zmq.Socket[bytes]] = []
        self._queues = [_Queue(), _Queue()]
        self._failures = 0
        self._dial_at: float | None = now
        self._last_message = now  # Any message of the head; the end of patience counts from it.
        self._received = now
        self._reset(now)

    def _reset(self, now: float) -> None:
        self.epoch = secrets.randbits(64) | 1
        self.connected = False
        self._greeted = [False, False]
        self._welcomed = [False, False]
        self._expected = [1, 1]
        self._bye_seen = [False, False]
        self._bye_acked = [False, False]
        self._received = now

    # Connections.

    def dial_if_due(self, now: float) -> None:
        if self._dial_at is None or now < self._dial_at:
            return
        self._dial_at = None
        self._reset(now)
        for plane in (CONTROL, DATA):
            socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
            for option, value in (
                (zmq.LINGER, 0),
                (zmq.SNDHWM, 64),
                (zmq.RCVHWM, 64),
                (zmq.IMMEDIATE, 1),
                (zmq.MAXMSGSIZE, MAX_FRAME_BYTES),
                (zmq.HANDSHAKE_IVL, 5_000),
                (zmq.CONNECT_TIMEOUT, 5_000),
                (zmq.TCP_MAXRT, 10_000),
                (zmq.RECONNECT_IVL, 100),
                (zmq.RECONNECT_IVL_MAX, 1_000),
            ):
                socket.setsockopt(option, value)
            if self.access.encrypted and self.access.keys is not None:
                socket.setsockopt(zmq.CURVE_SERVERKEY, self.access.keys.head.encode())
                socket.setsockopt(zmq.CURVE_PUBLICKEY, self.access.keys.public.encode())
                socket.setsockopt(zmq.CURVE_SECRETKEY, self.access.keys.secret.encode())
            identity = f"{self.node}-{self.epoch:016x}-{'cd'[plane]}"
            socket.setsockopt(zmq.ROUTING_ID, identity.encode())
            self._sockets.append(socket)
            self._monitors.append(socket.get_monitor_socket(_HANDSHAKE_FAILURES))
            try:
                socket.connect(self.access.endpoint)
            except zmq.ZMQError as error:
                raise EmplaceError(self.access.endpoint, str(error), "write tcp://HOST:PORT") from None

    def redial(self, why: str, now: float) -> None:
        """Ends this epoch; the next dial is after a random part of a wait that doubles from 0.1 s to 2 s."""
        if self._dial_at is not None:
            return
        was_up, self.connected = self.connected, False
        self._close()
        self._dial_at = now + random.random() * min(2.0, 0.1 * 2 ** min(self._failures, 6))
        self._failures += 1
        if was_up:
            self.lost += 1
            self.last_error = why
            self.on_lost()

    def _close(self, linger_ms: int = 0) -> None:
        for socket, monitor in zip(self._sockets, self._monitors, strict=True):
            socket.disable_monitor()
            monitor.close(0)
            socket.close(linger_ms)
        self._sockets, self._monitors = [], []

    def close(self) -> None:
        """Gives the last acknowledgement time to leave the socket."""
        self._close(linger_ms=100)
        self._context.term()

    def pollable(self) -> Iterator[tuple[zmq.Socket[bytes], int]]:
        """Sockets to wait for, with the events."""
        for plane, socket in enumerate(self._sockets):
            blocked = not self._greeted[plane] or self._waits(plane)
            yield socket, zmq.POLLIN | (zmq.POLLOUT if blocked else 0)
        for monitor in self._monitors:
            yield monitor, zmq.POLLIN

    # Sending.

    def send(self, message: Outgoing) -> bool:
        """Queues a message; it waits while the head is away. False if the queue is full."""
        return self._queues[plane_of(message.envelope.type)].add(message)

    def _send(self, plane: int, message: Message) -> None:
        self._queues[plane].add(Outgoing.of(message))

    def _waits(self, plane: int) -> bool:
        return bool(self._queues[plane].waiting or self._queues[plane].latest)

    def flush(self) -> None:
        for plane, socket in enumerate(self._sockets):
            if not self._greeted[plane]:
                hello = Hello(
                    self.node,
                    self.epoch,
                    plane,
                    self._queues[plane].first_seq(),
                    self.actors(),
                    VERSION,
                    OLDEST_VERSION,
                )
                try:
                    socket.send_multipart(Outgoing.of(hello).parts(), zmq.NOBLOCK)
                except zmq.Again:
                    continue
                self._greeted[plane] = True
            if self._waits(plane):
                self._queues[plane].flush(socket)

    @property
    def sent(self) -> int:
        """Messages of actors that left."""
        return sum(queue.sent for queue in self._queues)

    def beat(self) -> None:
        if self.connected:
            self._send(CONTROL, Beat())
        else:
            self._greeted = list(self._welcomed)  # Repeats Hello where no Welcome came.

    # Receiving.

    def receive(self, deliver: Callable[[Incoming], None], now: float) -> None:
        """Handles what has arrived, up to a number of frames."""
        for monitor in list(self._monitors):
            while monitor in self._monitors and monitor.poll(0):
                self._on_handshake_failure(recv_monitor_message(monitor)["event"], now)
        for plane in (CONTROL, DATA):
            for _ in range(FRAMES_PER_TURN):
                if plane >= len(self._sockets):
                    return
                try:
                    parts = self._sockets[plane].recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    break
                try:
                    for incoming in messages_of(parts):
                        self._on_message(plane, incoming, deliver, now)
                except WireError:
                    self.malformed += 1  # The rest of the frame is lost.

    def _on_handshake_failure(self, event: int, now: float) -> None:
        self.last_error = (
            "the head refuses this key; is it in its allow-list?"
            if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH
            else "the handshake fails; is the head's public key the right one, and do both ends use keys?"
        )
        self.redial(self.last_error, now)

    def _on_message(
        self, plane: int, incoming: Incoming, deliver: Callable[[Incoming], None], now: float
    ) -> None:
        if not self._sockets:
            return  # Dropped by a message before it in the same frame.
        self._received = now
        if incoming.number != Bye.NUMBER:
            self._last_message = now  # A refusal does not renew the patience.
        if incoming.number == Welcome.NUMBER:
            self._on_welcome(plane, incoming.read(Welcome))
        elif incoming.number == Beat.NUMBER:
            self.on_beat(incoming.read(Beat))
        elif incoming.number == Bye.NUMBER:
            self._on_bye(plane, incoming.read(Bye), now)
        elif incoming.number == ByeAck.NUMBER:
            self._bye_acked[plane] = True
        elif incoming.number >= FIRST_RUNTIME_TYPE or incoming.number not in REGISTER:
            self.unknown += 1  # A message that this client does not know.
        else:
            seq = incoming.envelope.seq
            if seq < self._expected[plane]:
                self.repeats += 1
                return
            self.gaps += seq - self._expected[plane]
            self._expected[plane] = seq + 1
            deliver(incoming)

    def _on_welcome(self, plane: int, welcome: Welcome) -> None:
        if welcome.epoch != self.epoch or welcome.plane != plane:
            self.malformed += 1
            return
        if self._welcomed[plane]:
            return
        self._welcomed[plane] = True
        self._expected[plane] = welcome.first_seq
        if not all(self._welcomed):
            return
        self.connected = self.joined_once = True
        self._failures, self.last_error = 0, ""
        self.on_joined(welcome.actors)

    def _on_bye(self, plane: int, bye: Bye, now: float) -> None:
        if bye.fenced and bye.final:
            what, _, cure = bye.reason.partition("; ")
            cure = cure or "join under another name, or with a key that has the role"
            self._refused, self.connected = True, False
            raise EmplaceError(self.access.endpoint, f"the head refused: {what}", cure)
        if bye.fenced:
            self.last_error = f"the head refused: {bye.reason}"
            return self.redial(self.last_error, now)
        self._send(plane, ByeAck(plane))
        self._bye_seen[plane] = True
        if all(self._bye_seen):
            self.run_is_over = bye.over
            self.on_head_left(bye.reason)

    # Time and the end.

    def skip_own_pause(self, pause: float, now: float) -> None:
        """Nothing could be received while this process was stopped."""
        self._received = now
        self._last_message = min(now, self._last_message + pause)

    def tick(self, now: float, beat: bool) -> None:
        """Beats, finds a silent head lost, and ends the patience. Raises EmplaceError."""
        if beat:
            self.beat()
        if self.connected and now - self._received > MISSED_BEATS * HEARTBEAT:
            self.redial("silent for three heartbeats", now)
        limit = self.timeout if self.joined_once else self.patience
        if now - self._last_message > limit:
            why = self.last_error or "the run is over, or its head does not listen yet"
            raise EmplaceError(self.access.endpoint, f"no message from the head for {limit:g} s", why)

    def next_dial(self) -> float | None:
        return self._dial_at

    def send_bye(self, reason: str) -> None:
        if not all(self._bye_seen):
            for plane in (CONTROL, DATA):
                self._send(plane, Bye(reason))

    def parted(self) -> bool:
        """Whether nothing more has to be exchanged."""
        if self._refused or not self.joined_once or all(self._bye_acked):
            return True
        waits = any(self._waits(plane) for plane in (CONTROL, DATA))
        return not waits and (all(self._bye_seen) or not self.connected)

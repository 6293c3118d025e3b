"""Goal: a session with a head ends, starts again and loses no message that could be kept, whatever the head
sends. Method: a fake head, a ROUTER, that repeats, skips, fences, is silent, or sends bytes that are no
messages.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from heads import FakeHead, wait_for

import emplace.actor as ea
from emplace.actor.link import Link
from emplace.actor.node import OVER
from emplace.actor.node import actor_id
from emplace.wire.codec import Message
from emplace.wire.frames import CONTROL, DATA, Incoming, Outgoing, messages_of
from emplace.wire.messages import Beat, Bye, ByeAck, EpisodesWanted

NAME = "sampler/0"


class Listener(ea.Actor):
    def __init__(self) -> None:
        self.wanted: list[int] = []
        self.seen: list[tuple[str, bool]] = []

    def on_message(self, incoming: Incoming) -> None:
        if incoming.number == EpisodesWanted.NUMBER:
            self.wanted.extend(int(number) for number in incoming.read(EpisodesWanted).episodes)

    def on_directory(self, actor: str, reachable: bool) -> None:
        self.seen.append((actor, reachable))


class Session:
    """A node on a thread, and the fake head that it dials."""

    def __init__(self) -> None:
        self.head, self.listener = FakeHead(), Listener()
        self.outcome: str | ea.EmplaceError = ""
        self.node = ea.Node(ea.Access(self.head.endpoint), "outside", patience=3.0)
        self.node.add(NAME, self.listener)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.outcome = self.node.run()
        except ea.EmplaceError as error:
            self.outcome = error

    def until(self, condition: Callable[[], object]) -> None:
        def met() -> object:
            self.head.turn()
            return condition()

        wait_for(met)

    def joined(self) -> None:
        self.until(lambda: self.node.link.connected)

    def want(self, *episodes: int, seq: int | None = None) -> None:
        self.head.send(CONTROL, EpisodesWanted(np.array(episodes, np.uint64)), actor_id(NAME), seq)

    def over(self) -> str | ea.EmplaceError:
        self.until(lambda: not self.thread.is_alive())
        return self.outcome

    def close(self) -> None:
        self.node.stop("test")
        for plane in self.head.identities:
            self.head.send(plane, ByeAck(plane))
        self.until(lambda: self._part())
        self.head.close()

    def _part(self) -> bool:
        for incoming in self.head.of(Bye):
            for plane in (CONTROL, DATA):
                self.head.send(plane, ByeAck(plane))
        self.head.received.clear()
        return not self.thread.is_alive()


@pytest.fixture
def session() -> Iterator[Session]:
    one = Session()
    try:
        yield one
    finally:
        one.close()


def test_greets_on_both_planes_and_names_its_actors_and_version(session: Session) -> None:
    session.joined()
    control, data = sorted(session.head.hellos[:2], key=lambda hello: hello.plane)
    assert (control.plane, data.plane, control.epoch) == (0, 1, data.epoch) and control.epoch != 0
    assert control.actors == [NAME] and (control.wire, control.oldest_wire, control.first_seq) == (3, 3, 1)
    assert ("dispatcher/0", True) in session.listener.seen
    session.until(lambda: session.head.of(Beat))


def test_a_hello_without_an_answer_is_repeated_with_the_same_epoch(session: Session) -> None:
    session.head.welcomes = False
    session.until(lambda: len(session.head.hellos) >= 3)
    assert len({hello.epoch for hello in session.head.hellos}) == 1
    session.head.welcomes = True
    session.joined()


def test_a_repeated_message_is_dropped_and_a_gap_is_counted(session: Session) -> None:
    session.joined()
    session.want(1, seq=1)
    session.want(2, seq=1)
    session.want(3, seq=5)
    session.want(4, seq=3)
    session.until(lambda: 3 in session.listener.wanted)
    session.want(6, seq=6)
    session.until(lambda: 6 in session.listener.wanted)
    assert session.listener.wanted == [1, 3, 6]
    assert (session.node.link.repeats, session.node.link.gaps) == (2, 3)


def test_a_fenced_epoch_dials_again_with_a_new_one(session: Session) -> None:
    session.joined()
    before = session.head.hellos[-1].epoch
    session.head.refuse("this incarnation has ended", final=False)
    session.until(lambda: session.head.hellos[-1].epoch != before)
    session.joined()
    assert ("dispatcher/0", False) in session.listener.seen
    session.want(7)
    session.until(lambda: session.listener.wanted == [7])


def test_a_final_refusal_ends_the_session_with_the_reason_of_the_head(session: Session) -> None:
    session.joined()
    session.head.refuse("another process joined as outside", final=True)
    outcome = session.over()
    assert str(outcome) == (
        f"{session.head.endpoint}: the head refused: another process joined as outside; "
        "join under another name, or with a key that has the role"
    )


def test_messages_wait_while_the_head_is_away_and_keep_their_numbers(session: Session) -> None:
    session.joined()
    sent = threading.Event()

    def send() -> None:
        session.listener.send("view/0", EpisodesWanted())
        sent.set()

    session.node.post(send)
    session.until(sent.is_set)
    session.until(lambda: len(session.head.of(EpisodesWanted)) == 1)
    session.head.welcomes = False
    session.head.refuse("away", final=False)
    session.until(lambda: not session.node.link.connected)
    sent.clear()
    session.node.post(send)
    session.until(sent.is_set)
    session.head.welcomes = True
    session.joined()
    session.until(lambda: len(session.head.of(EpisodesWanted)) == 2)
    numbers = [
        incoming.envelope.seq
        for _, incoming in session.head.received
        if incoming.number == EpisodesWanted.NUMBER
    ]
    assert numbers == [1, 2]


def test_a_silent_head_is_lost_and_the_patience_ends_with_one_line(session: Session) -> None:
    session.joined()
    session.node.link.timeout = 2.0
    session.until(lambda: session.node.link.lost == 1)  # The fake head sends no beats.
    session.head.welcomes = False
    outcome = session.over()
    assert str(outcome).startswith(f"{session.head.endpoint}: no message from the head for 2 s; ")


def test_patience_counts_from_the_last_message_but_not_from_a_refusal() -> None:
    link = Link(ea.Access("tcp://127.0.0.1:1"), "outside", list, patience=10.0, timeout=30.0, now=0.0)
    link.dial_if_due(0.0)
    link.joined_once = True

    def hear(message: Message, now: float) -> None:
        (incoming,) = messages_of(Outgoing.of(message).parts())
        link._on_message(CONTROL, incoming, lambda _: None, now)

    hear(Beat(), 100.0)
    link.tick(130.0, beat=False)
    hear(Bye("this incarnation has ended", fenced=True), 130.0)
    with pytest.raises(
        ea.EmplaceError, match="no message from the head for 30 s; the head refused: this incarnation"
    ):
        link.tick(130.1, beat=False)
    link.close()


def test_malformed_bytes_are_counted_and_ignored(session: Session) -> None:
    session.joined()
    identity = session.head.identities[CONTROL]
    record = Beat(["x/0"], [])
    for parts in (
        [b"\xff" * 40],
        [b""],
        [b"a", b"b"],
        [b"\x97\x03\x01\x00\x00\x00\x00\x00", b"\xc1", b""],
        [b"\x05\x00\x00\x00" * 3 + b"\x90"],
        [b"\x91" * 3000, b"\x80", b""],
    ):
        session.head.socket.send_multipart([identity, *parts])
    session.head.send(CONTROL, EpisodesWanted(np.zeros(0, np.uint64)), 12345)  # No such actor.
    session.head.send(CONTROL, record)
    session.until(lambda: ("x/0", True) in session.listener.seen)
    assert session.node.link.malformed >= 4 and session.node.unroutable == 1
    session.want(9)
    session.until(lambda: session.listener.wanted == [9])


def test_bye_of_the_head_is_acknowledged_and_ends_the_node(session: Session) -> None:
    session.joined()
    for plane in (CONTROL, DATA):
        session.head.send(plane, Bye("budget"))
    assert session.over() == OVER
    session.until(lambda: {getattr(ack, "plane") for ack in session.head.of(ByeAck)} == {0, 1})


@pytest.mark.parametrize("over", [True, False])
def test_bye_of_the_head_states_whether_another_start_follows(over: bool) -> None:
    head = FakeHead()
    run = ea.Run(ea.Access(head.endpoint), "scratch", {}, {}, [], [], more_starts=True)
    thread = threading.Thread(target=lambda: run.join({NAME: ea.Actor()}, "outside"))
    thread.start()

    def turn(condition: Callable[[], object]) -> None:
        wait_for(lambda: head.turn() or condition())

    try:
        turn(lambda: head.of(Beat))
        for plane in (CONTROL, DATA):
            head.send(plane, Bye("signal", over=over))
        turn(lambda: not thread.is_alive())
    finally:
        thread.join(20)
        head.close()
    assert run.more_starts == (not over)


def test_two_actors_of_one_name_are_refused() -> None:
    node = ea.Node(ea.Access("tcp://127.0.0.1:1"), "outside")
    node.add("sampler/0", ea.Actor())
    with pytest.raises(ea.EmplaceError, match="actor sampler/0: the name is taken"):
        node.add("sampler/0", ea.Actor())
    node.link.close()


def test_an_address_without_a_listener_is_reported_in_one_line() -> None:
    node = ea.Node(ea.Access("tcp://127.0.0.1:1"), "outside", patience=0.3)
    with pytest.raises(
        ea.EmplaceError, match="no message from the head for 0.3 s; the run is over, or its head"
    ):
        node.run()

"""Goal: each role obeys its protocol in cases that runs seldom reach: lost, repeated and late messages.

Method: an actor without a node; its sends are collected, its timers called by hand, its work done at once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import emplace.actor as ea
from emplace.actor import executor as executor_module
from emplace.actor import sampler as sampler_module
from emplace.actor.executor import ExecutorActor
from emplace.actor.graph import Graph
from emplace.actor.log import LogFollower
from emplace.actor.sampler import SamplerActor
from emplace.actor.worker import fail
from emplace.wire.codec import REGISTER, M, Message, Section, decode
from emplace.wire.frames import Envelope, Incoming, Outgoing
from emplace.wire.messages import (
    CreditGranted,
    EpisodeCommitted,
    EpisodeMeasured,
    EpisodesAsked,
    EpisodesKnown,
    EpisodesWanted,
    ExecutorJoined,
    ExecutorLeft,
    ExecutorUnknown,
    Heartbeat,
    LeaseGranted,
    LogRequested,
    PlacementMeasured,
    PlacementProposed,
    SamplerDrained,
    StopRun,
)


class Stub:
    """Replaces a node and its link."""

    def __init__(self) -> None:
        self.name, self.link = "stub", self
        self.sent: list[Outgoing] = []
        self.timers: list[Callable[[], None]] = []

    def send(self, message: Outgoing) -> bool:
        self.sent.append(message)
        return True

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append(call)

    def tick(self) -> None:
        timers, self.timers = self.timers, []
        for call in timers:
            call()

    def take(self, cls: type[M]) -> list[M]:
        """What was sent of this type since the last call."""
        taken = [decode(cls, one.body) for one in self.sent if one.envelope.type == cls.NUMBER]
        self.sent = [one for one in self.sent if one.envelope.type != cls.NUMBER]
        return taken


class AtOnce:
    """A worker that does its work at once, or when a test lets it."""

    held: list[Callable[[], None]] | None = None

    def __init__(self, node: object, name: str) -> None:
        pass

    def do(
        self,
        call: Callable[[], Any],
        then: Callable[[Any], None],
        failed: Callable[[BaseException], None] = fail,
    ) -> None:
        def run() -> None:
            try:
                result = call()
            except Exception as error:
                return failed(error)
            then(result)

        AtOnce.held.append(run) if AtOnce.held is not None else run()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    AtOnce.held = None
    monkeypatch.setattr(executor_module, "Worker", AtOnce)
    monkeypatch.setattr(sampler_module, "Worker", AtOnce)


def a_run(**sections: dict[str, Any]) -> ea.Run:
    graph = Graph(Path("none"))
    ops = [{"id": k, "name": f"op{k}", "type": "x", "inputs": [], "outputs": []} for k in range(3)]
    graph.__dict__["ops"] = ops
    return ea.Run(ea.Access("tcp://h:1"), "scratch", sections, {}, [graph], ["cpu:0", "gpu:0"], False)


def deliver(actor: ea.Actor, message: Message, bulk: bytes = b"") -> None:
    sent = Outgoing.of(message, bulk=bulk)
    actor.on_message(Incoming(Envelope(message.NUMBER, 99), memoryview(sent.body), memoryview(bulk)))


def started(actor: ea.Actor, name: str) -> Stub:
    stub = Stub()
    actor.node, actor.name = cast(ea.Node, stub), name
    actor.on_start()
    return stub


class Constant(ea.Executor):
    def measure(self, graph: ea.Graph, placement: Any) -> ea.Measurement:
        if placement[0] == 9:
            raise ValueError("no\nsuch device")
        return ea.Measurement(
            valid=True, step_time_s=float(placement.sum()) if placement[0] != 8 else float("nan")
        )


def lease(epoch: int, first: int = 1, executor_epoch: int = 0) -> tuple[LeaseGranted, bytes]:
    granted = LeaseGranted("", 10 * epoch, 2, 3, 2, epoch, 1, 30_000, executor_epoch, Section(0, 6))
    return granted, bytes([first, 1, 1, 0, 1, 0])


def an_executor() -> tuple[ExecutorActor, Stub, int]:
    run = a_run()
    actor = ExecutorActor(run, Constant())
    stub = started(actor, "executor/7")
    (joined,) = stub.take(ExecutorJoined)
    assert joined.graph_sha256 == run.task and joined.placements == 512 and joined.kind == "sim"
    return actor, stub, joined.epoch


def answered(actor: ExecutorActor, stub: Stub, granted: LeaseGranted, data: bytes) -> list[PlacementMeasured]:
    granted.graph_sha256 = actor.run.task
    deliver(actor, granted, data)
    return stub.take(PlacementMeasured)


def test_a_lease_is_answered_once_in_the_order_of_its_placements() -> None:
    actor, stub, epoch = an_executor()
    (result,) = answered(actor, stub, *lease(5, executor_epoch=epoch))
    assert (result.placement_id, result.lease_epoch, result.count, result.num_devices) == (50, 5, 2, 2)
    assert result.step_time_s.tolist() == [3.0, 1.0] and result.executor == "executor/7" and not result.error
    stub.tick()
    (beat,) = stub.take(Heartbeat)
    assert (beat.epoch, beat.seen, len(beat.leases)) == (epoch, 5, 0)


@pytest.mark.parametrize(("first", "error"), [(9, "no such device"), (8, "a time is not within 0 and 1e9 s")])
def test_failed_measurements_are_reported_in_one_line(first: int, error: str) -> None:
    actor, stub, _ = an_executor()
    (result,) = answered(actor, stub, *lease(5, first))
    assert result.error == error
    assert not answered(actor, stub, *lease(6))[0].error


def test_a_lease_of_an_earlier_incarnation_is_ignored() -> None:
    actor, stub, epoch = an_executor()
    assert not answered(actor, stub, *lease(5, executor_epoch=epoch - 1))


def test_an_unknown_executor_drops_unstarted_leases_and_withholds_credit() -> None:
    actor, stub, epoch = an_executor()
    AtOnce.held = []
    for number in (5, 6):
        assert not answered(actor, stub, *lease(number))
    deliver(actor, ExecutorUnknown(epoch + 1))  # It answers another heartbeat: ignored.
    assert not stub.take(ExecutorJoined)
    deliver(actor, ExecutorUnknown(epoch))
    (again,) = stub.take(ExecutorJoined)
    assert again.epoch > epoch and again.placements == 510
    stub.tick()
    assert stub.take(Heartbeat)[0].leases.tolist() == [5]
    AtOnce.held.pop()()
    assert [result.lease_epoch for result in stub.take(PlacementMeasured)] == [5]
    assert [(granted.epoch, granted.placements, granted.bytes) for granted in stub.take(CreditGranted)] == [
        (again.epoch, 2, 6)
    ]
    assert not AtOnce.held, "the second lease is not measured"


def test_a_process_has_as_many_executors_as_its_names_allow() -> None:
    assert len(set(ea.executors(a_run(), Constant, 4_000))) == 4_000
    for count in (0, 4_001):
        with pytest.raises(ea.EmplaceError, match="use 1 to 4000 executors in one process"):
            ea.executors(a_run(), Constant, count)


def test_a_kind_that_gets_no_work_is_refused_in_one_line() -> None:
    other = Constant()
    other.kind = "cpu"
    with pytest.raises(ea.EmplaceError) as refused:
        ExecutorActor(a_run(), other)
    assert str(refused.value) == "executor kind 'cpu': gets no work in this run; use sim (executor.counts)"
    assert ExecutorActor(a_run(executor={"counts": ["sim", "cpu"]}), other).kind == "cpu"


def test_a_leaving_executor_reports_its_unanswered_leases() -> None:
    actor, stub, epoch = an_executor()
    AtOnce.held = []
    for number in (5, 6):
        answered(actor, stub, *lease(number))
    actor.on_stop()
    (left,) = stub.take(ExecutorLeft)
    assert (left.leases.tolist(), left.seen, left.epoch) == ([5, 6], 6, epoch)
    AtOnce.held.pop()()
    assert not stub.take(PlacementMeasured) and not answered(actor, stub, *lease(7))


# The log.


def committed(
    seq: int, episode: int, actions: bytes = b"a", controller: int = 0
) -> tuple[EpisodeCommitted, bytes]:
    measured = EpisodeMeasured(episode=episode, controller=controller, count=1)
    return EpisodeCommitted(seq, measured, Section(0, len(actions))), actions


def test_log_entries_are_applied_once_in_order_and_pushes_are_ignored() -> None:
    seen: list[tuple[int, bytes]] = []
    stub, actor = Stub(), ea.Actor()
    actor.node, actor.name = cast(ea.Node, stub), "reader/0"
    follower = LogFollower(actor, lambda episode: seen.append((episode.seq, episode.actions)))
    def on_message(incoming: Incoming) -> None:
        follower.on_committed(incoming)

    actor.on_message = on_message  # type: ignore[method-assign]
    follower.start()
    (asked,) = stub.take(LogRequested)
    assert (asked.from_seq, asked.until_seq, asked.again, asked.actions) == (1, 65, True, True)
    for seq, actions in ((1, b""), (1, b"x"), (1, b"x"), (3, b"z"), (2, b"y"), (3, b"z")):
        deliver(actor, *committed(seq, 100 + seq, actions))
    assert seen == [(1, b"x"), (2, b"y"), (3, b"z")]
    for seq in range(4, 40):
        deliver(actor, *committed(seq, seq))
    assert [(one.from_seq, one.again) for one in stub.take(LogRequested)] == [(33, False)]


# Samplers.


class Zeros(ea.Sampler):
    placements_per_episode = 2

    def __init__(self) -> None:
        self.seen: list[tuple[int, bool]] = []

    def propose(self, episode: int) -> ea.Proposal:
        return ea.Proposal(np.full((2, 3), episode % 2, np.uint8), bytes([episode]))

    def committed(self, episode: ea.Episode, mine: bool) -> None:
        self.seen.append((episode.number, mine))


def a_sampler(method: str = "random") -> tuple[SamplerActor, Stub, Zeros]:
    zeros = Zeros()
    pipeline = {"controllers": 2, "max_outstanding": 3}
    actor = SamplerActor(a_run(policy={"method": method}, pipeline=pipeline), zeros, 1)
    stub = started(actor, "sampler/1")
    assert not stub.take(PlacementProposed), "nothing is proposed before the recorder has answered"
    first, second = stub.take(EpisodesAsked)
    assert first.starting and (first.controller, first.controllers) == (1, 2) and second.starting
    return actor, stub, zeros


def none() -> Any:
    return np.zeros(0, np.uint64)


def numbers(*values: int) -> Any:
    return np.array(values, np.uint64)


def test_a_restarted_sampler_proposes_lost_episodes_first_and_continues_where_the_record_ends() -> None:
    actor, stub, _ = a_sampler()
    deliver(actor, EpisodesKnown(True, none(), none(), none(), numbers(3), 9, 5))
    proposed = stub.take(PlacementProposed)
    assert [one.episode for one in proposed] == [3, 9, 11]
    assert [one.placement_id for one in proposed] == [6, 18, 22] and proposed[0].controller == 1
    assert proposed[0].actions == Section(6, 1) and proposed[0].num_devices == 2
    deliver(actor, EpisodesKnown(True, none(), none(), none(), numbers(3), 9, 5))  # A repeated answer.
    assert not stub.take(PlacementProposed)


def test_an_episode_ends_when_it_is_committed_and_the_next_is_proposed() -> None:
    actor, stub, zeros = a_sampler()
    deliver(actor, EpisodesKnown(True, next_episode=1))
    assert [one.episode for one in stub.take(PlacementProposed)] == [1, 3, 5]
    deliver(actor, *committed(1, 3, b"", 1))
    deliver(actor, *committed(1, 3, b"\x03", 1))
    deliver(actor, *committed(2, 2, b"\x02", 0))
    assert [one.episode for one in stub.take(PlacementProposed)] == [7]
    assert zeros.seen == [(3, True), (2, False)]


def test_in_a_learned_run_an_episode_lasts_until_an_update_has_consumed_it() -> None:
    actor, stub, _ = a_sampler("hierarchical")
    deliver(actor, EpisodesKnown(True, none(), numbers(5), none(), none(), 7, 3))
    assert [one.episode for one in stub.take(PlacementProposed)] == [7, 9]
    deliver(actor, *committed(4, 7, b"", 1))
    assert not stub.take(PlacementProposed)
    updated = REGISTER[6]()
    setattr(updated, "episodes", numbers(5, 7))
    deliver(actor, updated)
    assert [one.episode for one in stub.take(PlacementProposed)] == [11, 13]


def test_a_lost_proposal_is_sent_again_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    actor, stub, _ = a_sampler()
    deliver(actor, EpisodesKnown(True, next_episode=1))
    before = stub.take(PlacementProposed)
    monkeypatch.setattr(sampler_module, "_RETRY", 0.0)
    stub.tick()
    (asked,) = stub.take(EpisodesAsked)
    assert not asked.starting and asked.episodes.tolist() == [1, 3, 5]
    deliver(actor, EpisodesKnown(False, numbers(1), none(), numbers(3, 5), none(), 0, 1))
    (lost,) = stub.take(EpisodesAsked)
    assert lost.episodes.tolist() == [3, 5] and stub.take(PlacementProposed)[0].episode == 7
    deliver(actor, EpisodesWanted(numbers(5, 1)))
    assert stub.take(PlacementProposed) == before[2:]


def test_a_stopped_sampler_reports_when_its_last_episode_has_ended() -> None:
    actor, stub, _ = a_sampler()
    deliver(actor, EpisodesKnown(True, next_episode=1))
    deliver(actor, StopRun("budget"))
    assert not stub.take(SamplerDrained)
    for seq, episode in enumerate((1, 3, 5), 1):
        deliver(actor, *committed(seq, episode, bytes([episode]), 1))
    assert [one.sampler for one in stub.take(SamplerDrained)] == ["sampler/1"]
    deliver(actor, StopRun("budget"))
    assert len(stub.take(SamplerDrained)) == 1 and len(stub.take(PlacementProposed)) == 3


def test_a_proposal_of_another_shape_is_refused_in_one_line() -> None:
    actor, stub, zeros = a_sampler()
    zeros.propose = lambda episode: ea.Proposal(np.full((2, 3), 2, np.uint8))  # type: ignore[method-assign]
    with pytest.raises(ea.EmplaceError, match=r"propose \[2, 3\] devices below 2"):
        deliver(actor, EpisodesKnown(True, next_episode=1))

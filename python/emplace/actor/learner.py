"""Learners in Python: they make updates of scored episodes and own the parameters
(docs/reference/wire_format.md, "Learners").
"""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emplace.actor.checkpoints import CheckpointFetch, ParameterServer, checkpoint_messages
from emplace.actor.log import Episode, LogFollower
from emplace.actor.node import RECORDER, TRACKER, Actor
from emplace.actor.run import Run
from emplace.actor.worker import Worker
from emplace.errors import EmplaceError
from emplace.wire.frames import Incoming
from emplace.wire.messages import (
    CheckpointDelivered,
    EpisodeCommitted,
    EpisodeScored,
    ParametersPublished,
    ParametersRequested,
    ScoresRequested,
    UpdateApplied,
    UpdateReplayed,
    UpdateRequested,
    UpdatesRecorded,
)

_RETRY = 1.0  # What is not acknowledged is sent again [s].


@dataclass(frozen=True)
class Scored:
    """An episode to learn from."""

    actions: bytes  # As its sampler packed them.
    advantages: NDArray[np.float64]  # [count] Cost minus baseline: negative is better. 0: excluded.


@dataclass(frozen=True)
class UpdateMade:
    """What an update was like, for the record."""

    loss: float = 0.0
    gradient_norm: float = 0.0
    entropy: float = 0.0
    learning_rate: float = 0.0


class Learner(ABC):
    """What learns. Subclass it. All calls are on one thread of the learner, one after the other."""

    def prepare(self, run: Run) -> None:
        """Called once, before anything else."""

    @abstractmethod
    def update(self, batch: Sequence[Scored]) -> UpdateMade:
        """One update. It must depend on nothing but parameters, optimizer and batch: a restarted learner
        repeats it.
        """

    @abstractmethod
    def parameters(self) -> bytes:
        """The parameters, in any form of your own."""

    def optimizer(self) -> bytes:
        """State of the optimizer."""
        return b""

    @abstractmethod
    def load(self, parameters: bytes, optimizer: bytes) -> None:
        """Takes what parameters() and optimizer() returned in an earlier process."""


def batch_of(replayed: UpdateReplayed, actions: bytes) -> list[Scored]:
    """The episodes of a recorded update. A placement that was not drawn, a start or a self-critic's
    baseline, has no advantage: each episode has one such, or none has.
    """
    advantages = replayed.advantages.astype(np.float64)
    counts = replayed.counts.astype(np.int64)
    undrawn, odd = divmod(int(counts.sum()) - len(advantages), max(len(counts), 1))
    if odd or undrawn not in (0, 1) or (counts < undrawn).any() or int(replayed.sizes.sum()) != len(actions):
        raise EmplaceError(
            f"update {replayed.update}", "is incomplete", "restart the run from a copy of its folder"
        )
    batch = []
    for size, count in zip(map(int, replayed.sizes), map(int, counts - undrawn), strict=True):
        batch.append(Scored(actions[:size], advantages[:count]))
        actions, advantages = actions[size:], advantages[count:]
    return batch


@dataclass
class _Pending:
    since: float
    seq: int
    episode: Episode | None = None
    score: EpisodeScored | None = None


class LearnerActor(Actor):
    """The protocol around a Learner: recovery, the log, scores, updates that are sent until they are on
    disk.
    """

    def __init__(self, run: Run, learner: Learner) -> None:
        self.run, self.learner = run, learner
        self.updates = 0  # Number of updates; also the version of the parameters.
        self.batch_episodes = int(run.setting("pipeline", "batch_episodes", 1))
        self.max_staleness = int(run.setting("pipeline", "max_staleness", 64))
        self.checkpoint_every = int(run.setting("record", "checkpoint_every", 50))
        self.samplers = [f"sampler/{c}" for c in range(int(run.setting("pipeline", "controllers", 1)))]
        if run.setting("run", "deterministic", False):
            raise EmplaceError("run.deterministic", "needs the program's own learner", "set it to false")
        self._server = ParameterServer(self)
        self._fetch = CheckpointFetch(self)
        self._log = LogFollower(self, self._on_logged)
        self._phase = "checkpoint"  # The next phases are first (no checkpoint exists), replay, learning.
        self._asked = 0.0
        self._busy = False
        self._pending: OrderedDict[int, _Pending] = OrderedDict()  # Actions or score are missing.
        self._ready: deque[_Pending] = deque()
        self._consumed: set[int] = set()  # Episodes of this incarnation.
        self._unrecorded: deque[UpdateApplied] = deque()
        self._sent = 0.0

    def on_start(self) -> None:
        self._epoch_now = self.next_epoch()
        self._worker = Worker(self.node, self.name)

        def prepare() -> bytes:
            self.learner.prepare(self.run)
            return self.learner.parameters()

        self._worker.do(prepare, self._prepared)

    def _prepared(self, parameters: bytes) -> None:
        self._server.keep(0, parameters)
        self._fetch.start(self._epoch_now)
        self.after(_RETRY / 4, self._tick)

    def _tick(self) -> None:
        now = time.monotonic()
        if self._phase == "checkpoint":
            self._fetch.repeat(_RETRY)
        elif self._phase in ("first", "replay") and now - self._asked >= _RETRY and not self._busy:
            self._send_first() if self._phase == "first" else self._request_update()
        elif self._phase == "learning":
            late = [
                one
                for one in self._pending.values()
                if one.episode and not one.score and now - one.since >= _RETRY
            ]
            for one in late:
                one.since = now
            if late:
                self.send(TRACKER, ScoresRequested(min(one.seq for one in late)))
            if self._unrecorded and now - self._sent >= _RETRY:
                self._sent = now
                for update in self._unrecorded:
                    self.send(RECORDER, update)
        self.after(_RETRY / 4, self._tick)

    def on_message(self, incoming: Incoming) -> None:
        if incoming.number == EpisodeCommitted.NUMBER:
            self._log.on_committed(incoming)
        elif incoming.number == EpisodeScored.NUMBER:
            self._on_scored(incoming.read(EpisodeScored))
        elif incoming.number == ParametersRequested.NUMBER:
            ready = self._phase == "learning"
            self._server.on_request(incoming.read(ParametersRequested), incoming.envelope.sender, ready)
        elif incoming.number == CheckpointDelivered.NUMBER and self._phase == "checkpoint":
            self._fetch.take(incoming, self._load, self._start_fresh)
        elif incoming.number == UpdateReplayed.NUMBER and self._phase == "replay":
            self._on_replayed(incoming.read(UpdateReplayed), incoming)
        elif incoming.number == UpdatesRecorded.NUMBER:
            recorded = incoming.read(UpdatesRecorded).update
            while self._unrecorded and self._unrecorded[0].update <= recorded:
                self._unrecorded.popleft()
            if self._phase == "first":
                self._phase = "replay"
                self._request_update()

    # Recovery.

    def _start_fresh(self) -> None:
        self._phase = "first"
        self._send_first()

    def _send_first(self) -> None:
        """The initial checkpoint, without which a restarted learner could not repeat the first updates."""
        self._asked = time.monotonic()
        self._checkpoint()

    def _load(self, update: int, sha256: str, parameters: bytes, optimizer: bytes) -> None:
        if hashlib.sha256(parameters).hexdigest() != sha256:
            raise EmplaceError(
                "the checkpoint", "does not have its hash", "restart the run from a copy of its folder"
            )
        self.updates, self._phase = update, "replay"

        def loaded(_: object) -> None:
            self._server.keep(update, parameters)
            self._request_update()

        self._worker.do(lambda: self.learner.load(parameters, optimizer), loaded)

    def _request_update(self) -> None:
        self._asked = time.monotonic()
        self.send(RECORDER, UpdateRequested(self.updates, self._epoch_now))

    def _on_replayed(self, replayed: UpdateReplayed, incoming: Incoming) -> None:
        if replayed.after != self.updates or self._busy:
            return
        if replayed.update == 0:
            self._phase = "learning"
            self._publish()
            self._log.start(replayed.unlearned_from)
            return
        batch = batch_of(replayed, bytes(incoming.section(replayed.actions)))
        self._busy = True

        def again() -> bytes:
            self.learner.update(batch)
            return self.learner.parameters()

        def made(parameters: bytes) -> None:
            self._busy = False
            self.updates += 1
            if hashlib.sha256(parameters).hexdigest() != replayed.parameters_sha256:
                raise EmplaceError(
                    f"update {self.updates}",
                    "gives other parameters than the record has",
                    "make update() depend on nothing but parameters, optimizer and batch",
                )
            self._server.keep(self.updates, parameters)
            self._request_update()

        self._worker.do(again, made)

    # Learning.

    def _on_logged(self, episode: Episode) -> None:
        if not episode.learned:
            one = self._pending.setdefault(episode.number, _Pending(time.monotonic(), episode.seq))
            one.episode, one.since = episode, time.monotonic()
            self._complete(episode.number)

    def _on_scored(self, score: EpisodeScored) -> None:
        if self._phase == "learning" and score.episode not in self._consumed:
            one = self._pending.setdefault(score.episode, _Pending(time.monotonic(), score.seq))
            one.score = score
            self._complete(score.episode)

    def _complete(self, number: int) -> None:
        one = self._pending[number]
        if one.episode is not None and one.score is not None:
            del self._pending[number]
            self._consumed.add(number)
            self._ready.append(one)
            self._learn()

    def _learn(self) -> None:
        if self._busy or self._phase != "learning" or len(self._ready) < self.batch_episodes:
            return
        taken = [self._ready.popleft() for _ in range(self.batch_episodes)]
        batch, ages, used = [], [], []
        for one in taken:
            assert one.episode is not None and one.score is not None
            age = max(0, self.updates - one.score.policy_version)
            counts = (one.score.counted == 1) & (age <= self.max_staleness)
            # In single precision, as recorded: a restarted learner repeats the update with these.
            advantages = np.where(counts, one.score.advantages, 0.0).astype(np.float32)
            batch.append(Scored(one.episode.actions, advantages.astype(np.float64)))
            ages.append(age)
            used.append(advantages)
        applied = UpdateApplied(
            update=self.updates + 1,
            policy_version=self.updates + 1,
            epoch=self._epoch_now,
            episodes=np.array([one.episode.number for one in taken if one.episode], np.uint64),
            advantages=np.concatenate(used),
            staleness_mean=float(np.mean(ages)),
            staleness_max=max(ages),
        )
        self._busy = True

        def update() -> tuple[UpdateMade, bytes, float]:
            start = time.monotonic()
            made = self.learner.update(batch)
            return made, self.learner.parameters(), time.monotonic() - start

        self._worker.do(update, lambda made: self._applied(applied, *made))

    def _applied(self, applied: UpdateApplied, made: UpdateMade, parameters: bytes, wall_s: float) -> None:
        if not np.all(np.isfinite([made.loss, made.gradient_norm, made.entropy, *applied.advantages])):
            raise EmplaceError(
                f"update {applied.update}",
                "diverged: loss or gradient is not finite",
                "use a lower learning rate",
            )
        self._busy = False
        self.updates += 1
        applied.loss, applied.gradient_norm, applied.entropy = made.loss, made.gradient_norm, made.entropy
        applied.learning_rate, applied.wall_s = made.learning_rate, wall_s
        applied.parameters_sha256 = self._server.keep(self.updates, parameters)
        self._unrecorded.append(applied)
        self._sent = time.monotonic()
        for receiver in (RECORDER, *self.samplers):
            self.send(receiver, applied)
        self._publish()
        if self.checkpoint_every and self.updates % self.checkpoint_every == 0:
            self._checkpoint()
        self._learn()

    def _publish(self) -> None:
        sha256, size = self._server.newest()
        for sampler in self.samplers:
            self.send(sampler, ParametersPublished(self.updates, sha256, size))
        self._server.answer_waiting()

    def _checkpoint(self) -> None:
        """Sends parameters and optimizer of the same moment: the thread makes one update after the other."""
        version = self.updates

        def taken(state: tuple[bytes, bytes]) -> None:
            for message, bulk in checkpoint_messages(version, self._epoch_now, *state):
                self.send(RECORDER, message, bulk)

        self._worker.do(lambda: (self.learner.parameters(), self.learner.optimizer()), taken)

    def on_stop(self) -> None:
        for update in self._unrecorded:
            self.send(RECORDER, update)


def learners(run: Run, learner: Learner) -> dict[str, Actor]:
    """The learner, for join(…, node=NAME)."""
    return {"learner/0": LearnerActor(run, learner)}

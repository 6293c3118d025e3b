"""Samplers in Python: they propose placements and learn from what was measured
(docs/reference/wire_format.md, "Samplers").
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emplace.actor.graph import Graph
from emplace.actor.log import Episode, LogFollower
from emplace.actor.node import DISPATCHER, RECORDER, Actor
from emplace.actor.run import Run
from emplace.actor.worker import Worker
from emplace.errors import EmplaceError
from emplace.wire.codec import Section
from emplace.wire.frames import Incoming
from emplace.wire.messages import (
    EpisodeCommitted,
    EpisodesAsked,
    EpisodesKnown,
    EpisodesWanted,
    PlacementProposed,
    SamplerDrained,
    StopRun,
    UpdateApplied,
)

_RETRY = 1.0  # Unanswered requests are repeated; episodes without news are asked about [s].


@dataclass(frozen=True)
class Proposal:
    """The placements of one episode, and the choices that led to them in the sampler's own encoding."""

    placements: NDArray[np.uint8]  # [count, ops] Device of each op, by position in the run's device list.
    actions: bytes = b""  # Given back with the measurements; empty: the placements.
    version: int = 0  # Version of the parameters.
    graph: int = 0  # Number of the graph.


class Sampler(ABC):
    """What proposes placements. Subclass it: propose(), and committed() to learn from the results.

    All calls are on one thread of the sampler, one after the other.
    """

    placements_per_episode = 4

    def prepare(self, run: Run) -> None:
        """Called once, before the first proposal."""

    @abstractmethod
    def propose(self, episode: int) -> Proposal:
        """The placements of an episode: `placements_per_episode` of them."""

    def committed(self, episode: Episode, mine: bool) -> None:
        """An episode is on disk. Every episode of the run in the order of the log, once per incarnation of
        this process: a restarted sampler sees all of them again, and can relearn. `mine`: this sampler's.
        """


@dataclass
class _Outstanding:
    proposal: Proposal | None  # None: an earlier incarnation proposed it.
    since: float
    recorded: bool = False


class SamplerActor(Actor):
    """The protocol around a Sampler: numbers, limits, lost messages and recovery."""

    def __init__(self, run: Run, sampler: Sampler, controller: int = 0) -> None:
        self.run, self.sampler, self.controller = run, sampler, controller
        self.controllers = int(run.setting("pipeline", "controllers", 1))
        self.max_outstanding = int(run.setting("pipeline", "max_outstanding", 4))
        self.limit = int(run.setting("run", "episodes", 0))
        evaluations = int(run.setting("run", "evaluations", 0))
        if evaluations:
            enough = -(-evaluations // sampler.placements_per_episode)
            self.limit = min(self.limit, enough) if self.limit else enough
        self.proposed = self.ended = 0
        self._log = LogFollower(self, self._on_logged)
        self._outstanding: dict[int, _Outstanding] = {}
        self._again: deque[int] = deque()  # Lost episodes of earlier incarnations.
        self._next = 0
        self._started = self._drawing = self._stopped = False
        self._devices = len(run.devices)

    def on_start(self) -> None:
        if not self._devices:
            raise EmplaceError(
                "input.devices",
                "the names of the devices are not in the manifest",
                "give the run a device file that names each device",
            )
        self._worker = Worker(self.node, self.name)
        self._worker.do(lambda: self.sampler.prepare(self.run), self._prepared)

    def _prepared(self, _: object) -> None:
        self._log.start()
        self._ask([])
        self.after(_RETRY / 4, self._tick)

    def _tick(self) -> None:
        now = time.monotonic()
        if not self._started and now - self._asked_at >= _RETRY:
            self._ask([])
        late = [number for number, one in self._outstanding.items() if now - one.since >= _RETRY]
        for number in late:
            self._outstanding[number].since = now
        if late:
            self._ask(late)
        self._propose_next()
        self.after(_RETRY / 4, self._tick)

    def _ask(self, episodes: list[int]) -> None:
        self._asked_at = time.monotonic()
        asked = EpisodesAsked(
            self.controller, self.controllers, not self._started, np.array(episodes, np.uint64)
        )
        self.send(RECORDER, asked)
        if not self._started:
            self.send(DISPATCHER, asked)  # The run may be ending.

    def on_message(self, incoming: Incoming) -> None:
        if incoming.number == EpisodeCommitted.NUMBER:
            committed = self._log.on_committed(incoming)
            number = committed.measured.episode
            if committed.measured.controller == self.controller and number in self._outstanding:
                self._outstanding[number].recorded = True
                if not self.run.learns:
                    self._end(number)
        elif incoming.number == UpdateApplied.NUMBER:
            for number in incoming.read(UpdateApplied).episodes:
                self._end(int(number))
        elif incoming.number == EpisodesKnown.NUMBER:
            self._on_known(incoming.read(EpisodesKnown))
        elif incoming.number == EpisodesWanted.NUMBER:
            for number in incoming.read(EpisodesWanted).episodes:
                wanted = self._outstanding.get(int(number))
                if wanted is not None and wanted.proposal is not None and not wanted.recorded:
                    self._send(int(number), wanted.proposal)
        elif incoming.number == StopRun.NUMBER:
            self._stopped = True
            self._report_if_drained()

    def _on_known(self, known: EpisodesKnown) -> None:
        if known.starting:
            if self._started:
                return
            self._started = True
            self._next = known.next_episode
            self._again.extend(int(number) for number in known.missing)
            now = time.monotonic()
            self._outstanding = {int(number): _Outstanding(None, now, True) for number in known.recorded}
        for number in known.recorded:
            if int(number) in self._outstanding:
                self._outstanding[int(number)].recorded = True
        for number in known.ended:
            self._end(int(number))
        # The dispatcher may have what is not on disk yet; it asks for what it lacks.
        lost = [
            int(number)
            for number in known.unknown
            if int(number) in self._outstanding and not self._outstanding[int(number)].recorded
        ]
        if lost:
            self.send(
                DISPATCHER, EpisodesAsked(self.controller, self.controllers, False, np.array(lost, np.uint64))
            )
        self._propose_next()
        self._report_if_drained()

    def _on_logged(self, episode: Episode) -> None:
        mine = episode.measured.controller == self.controller
        self._worker.do(lambda: self.sampler.committed(episode, mine), lambda _: None)

    def _end(self, number: int) -> None:
        if self._outstanding.pop(number, None) is not None:
            self.ended += 1
            self._propose_next()
            self._report_if_drained()

    def _report_if_drained(self) -> None:
        if self._stopped and not self._outstanding and not self._drawing:
            self.send(DISPATCHER, SamplerDrained(self.name))

    def _propose_next(self) -> None:
        number = self._again[0] if self._again else self._next
        room = len(self._outstanding) < self.max_outstanding and (not self.limit or number < self.limit)
        if not self._started or self._stopped or self._drawing or not room:
            return
        self._drawing = True
        if self._again:
            self._again.popleft()
        else:
            self._next += self.controllers
        self._worker.do(lambda: self.sampler.propose(number), lambda drawn: self._drawn(number, drawn))

    def _drawn(self, number: int, proposal: Proposal) -> None:
        self._drawing = False
        if not self._stopped:
            self._outstanding[number] = _Outstanding(proposal, time.monotonic())
            self.proposed += 1
            self._send(number, proposal)
        self._report_if_drained()
        self._propose_next()

    def _send(self, number: int, proposal: Proposal) -> None:
        graph: Graph = self.run.graphs[proposal.graph]
        placements = np.ascontiguousarray(proposal.placements, np.uint8)
        count = self.sampler.placements_per_episode
        if placements.shape != (count, graph.num_ops) or placements.max() >= self._devices:
            raise EmplaceError(
                f"episode {number}",
                f"has placements of shape {placements.shape}",
                f"propose [{count}, {graph.num_ops}] devices below {self._devices}",
            )
        data, actions = placements.tobytes(), proposal.actions or placements.tobytes()
        message = PlacementProposed(
            graph_sha256=graph.sha256,
            controller=self.controller,
            episode=number,
            placement_id=number * count,
            count=count,
            policy_version=proposal.version,
            num_ops=graph.num_ops,
            num_devices=self._devices,
            placements=Section(0, len(data)),
            actions=Section(len(data), len(actions)),
        )
        self.send(DISPATCHER, message, data + actions)


def samplers(run: Run, sampler: Sampler, controller: int = 0) -> dict[str, Actor]:
    """The sampler of a controller, for join(…, node=NAME)."""
    return {f"sampler/{controller}": SamplerActor(run, sampler, controller)}

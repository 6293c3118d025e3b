"""How many actors a run needs, which to start and which to drain. Pure: time and events come from outside."""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """What bounds the number of actors, and how fast it follows the demand."""

    executors_per_actor: int = 1
    most: int | None = None
    """Most executors of all actors together; None: no bound."""
    idle_s: float = 5.0
    """How long an actor must have been too many before it is drained."""
    absent_s: float = 4.0
    """How long a run may not list an actor that took part: Ray notices a dead node after 10 s and more."""
    drain_s: float = 5.0
    """How long a drain may take before the actor is killed."""
    first_delay_s: float = 0.5
    longest_delay_s: float = 30.0
    """The wait after an actor that never took part, doubled by each further one up to the longest."""


@dataclass(frozen=True)
class Process:
    """A process by its host and its number there: the name that both Ray's side and the run know."""

    host: str
    pid: int


@dataclass(frozen=True)
class Node:
    """A node of the run, as ``emplace ps`` reports it."""

    process: Process
    executors: int
    in_flight: int


@dataclass(frozen=True)
class Status:
    """What a run reports once a second."""

    wanted: int
    executors: int
    nodes: tuple[Node, ...] = ()
    ending: bool = False
    """Whether this start of the run ends: it wants no executors."""


@dataclass(frozen=True)
class Start:
    """Create actor `number`."""

    number: int


@dataclass(frozen=True)
class Drain:
    """Let actor `number` give its leases back and end."""

    number: int


@dataclass(frozen=True)
class Release:
    """Kill actor `number` and give its resources back to Ray. `why`: one line if that is a failure."""

    number: int
    why: str = ""


Action = Start | Drain | Release


class State(enum.IntEnum):
    """States of an actor, in the order in which superfluous actors leave: ending the first costs nothing."""

    PENDING = 0
    """Ray has not placed it yet."""
    STARTED = 1
    """Its process runs."""
    JOINED = 2
    """Its process is a node of the run."""
    DRAINING = 3


@dataclass
class Member:
    """An actor and its process."""

    number: int
    born_s: float
    state: State = State.PENDING
    ray_node: str = ""
    process: Process | None = None
    in_flight: int = 0
    drained_s: float = 0.0
    absent_since_s: float | None = None
    took_part: bool = False
    killed: bool = False


@dataclass
class Crew:
    """The actors of a run. Call `actions` after every event, and at `next_s`.

    The target is the demand less the executors of others, in whole actors. More are started at once; fewer
    are kept only after `idle_s` seconds in which no more were needed, so that a demand that swings around a
    whole number starts and stops nothing.
    """

    limits: Limits
    members: dict[int, Member] = field(default_factory=dict)
    starts: int = 0
    """Actors created so far."""
    target: int = 0
    """Actors that the newest status asks for."""
    closing: bool = False
    _targets: deque[tuple[float, int]] = field(default_factory=deque)
    _former: deque[Process] = field(default_factory=lambda: deque(maxlen=1_000))
    _failures: int = 0
    _not_before_s: float = -math.inf
    _numbers: int = 0

    def on_status(self, status: Status, now_s: float) -> None:
        """The run reported. Actors whose process is among its nodes take part."""
        nodes = {node.process: node for node in status.nodes}
        # The run may list a process for seconds after its end.
        ours = sum(nodes[process].executors for process in self._former if process in nodes)
        for member in self.members.values():
            node = nodes.get(member.process) if member.process is not None else None
            member.in_flight = node.in_flight if node is not None else 0
            if node is None:
                if member.absent_since_s is None:
                    member.absent_since_s = now_s
                continue
            member.absent_since_s = None
            ours += node.executors
            if member.state == State.STARTED:
                member.state = State.JOINED
            if not member.took_part:
                member.took_part = True
                self._failures = 0
        others = max(0, status.executors - ours)
        missing = max(0, status.wanted - others)
        per_actor = self.limits.executors_per_actor
        self.target = math.ceil(missing / per_actor)
        if self.limits.most is not None:
            self.target = min(self.target, self.limits.most // per_actor)
        self._targets.append((now_s, self.target))

    def on_started(self, number: int, process: Process, ray_node: str) -> None:
        """Ray has placed the actor, and its process runs."""
        member = self.members.get(number)
        if member is None:
            return
        member.process, member.ray_node = process, ray_node
        if member.state == State.PENDING:
            member.state = State.STARTED

    def on_ended(self, number: int, now_s: float) -> None:
        """The actor or its process has ended, whatever the cause. One that never took part delays the next
        start: its successor would fail the same way."""
        member = self.members.pop(number, None)
        if member is not None and member.process is not None:
            self._former.append(member.process)
        if member is None or member.took_part or member.state == State.DRAINING:
            return
        delay = min(self.limits.longest_delay_s, self.limits.first_delay_s * 2.0**self._failures)
        self._failures = min(self._failures + 1, 30)
        self._not_before_s = now_s + delay

    def close(self) -> None:
        """The run is over, or we are to end: every actor is drained, none is started."""
        self.closing = True

    @property
    def closed(self) -> bool:
        """Whether `close` was called and no actor is left."""
        return self.closing and not self.members

    def actions(self, now_s: float) -> list[Action]:
        """The actions that are due."""
        wanted = 0 if self.closing else self._kept(now_s)
        found: list[Action] = [self._give_up(one, now_s) for one in self._absent(now_s)]
        present = [member for member in self.members.values() if member.state != State.DRAINING]
        if not self.closing and len(present) < self.target and now_s >= self._not_before_s:
            # After a failure one actor tries whether the cause is gone.
            missing = self.target - len(present)
            tries = missing if self._failures == 0 else max(0, min(missing, 1 - self._untried(present)))
            found += [self._start(now_s) for _ in range(tries)]
        elif len(present) > wanted:
            leavers = sorted(present, key=lambda one: self._cheapness(one, present))
            found += [self._dismiss(one, now_s) for one in leavers[: len(present) - wanted]]
        for member in self.members.values():
            late = member.state == State.DRAINING and now_s >= member.drained_s + self.limits.drain_s
            if late and not member.killed:
                member.killed = True
                found.append(Release(member.number))
        return found

    def next_s(self, now_s: float) -> float | None:
        """The time at which `actions` may return actions without an event; None: never."""
        present = sum(member.state != State.DRAINING for member in self.members.values())
        times = [
            member.drained_s + self.limits.drain_s
            for member in self.members.values()
            if member.state == State.DRAINING and not member.killed
        ]
        if not self.closing and present < self.target:
            times.append(self._not_before_s)
        if present > self.target and len(self._targets) > 1:
            times.append(self._targets[1][0] + self.limits.idle_s)
        return max(now_s, min(times)) if times else None

    def _absent(self, now_s: float) -> list[Member]:
        """The actors that took part and have been missing from reports for too long."""
        return [
            member
            for member in self.members.values()
            if member.state == State.JOINED
            and member.absent_since_s is not None
            and now_s >= member.absent_since_s + self.limits.absent_s
        ]

    @staticmethod
    def _give_up(member: Member, now_s: float) -> Release:
        member.state, member.drained_s, member.killed = State.DRAINING, now_s, True
        return Release(member.number, "the run has lost it")

    def _kept(self, now_s: float) -> int:
        """The most that were needed at any time within `idle_s`."""
        # Each holds until the next one.
        while len(self._targets) > 1 and self._targets[1][0] <= now_s - self.limits.idle_s:
            self._targets.popleft()
        return max((target for _, target in self._targets), default=0)

    @staticmethod
    def _untried(present: Iterable[Member]) -> int:
        return sum(not member.took_part for member in present)

    @staticmethod
    def _cheapness(one: Member, present: list[Member]) -> tuple[int, int, int, float]:
        """The first to leave: those that do not take part yet, then those alone on a node of Ray, which the
        autoscaler can then remove, with the least work in flight, the newest."""
        beside = sum(other.ray_node == one.ray_node for other in present)
        return (one.state, beside, one.in_flight, -one.born_s)

    def _start(self, now_s: float) -> Start:
        self._numbers += 1
        self.starts += 1
        self.members[self._numbers] = Member(self._numbers, now_s)
        return Start(self._numbers)

    def _dismiss(self, member: Member, now_s: float) -> Action:
        """Nothing runs in a pending actor: it needs no drain."""
        pending = member.state == State.PENDING
        member.state, member.drained_s, member.killed = State.DRAINING, now_s, pending
        return Release(member.number) if pending else Drain(member.number)

"""Following the recorder's log: every committed episode in order, once (docs/reference/wire_format.md, "The
log").
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emplace.actor.node import RECORDER, Actor
from emplace.wire.frames import Incoming
from emplace.wire.messages import EpisodeCommitted, EpisodeMeasured, LogRequested

_WINDOW = 64  # Entries in flight.
_TIMEOUT = 1.0


@dataclass(frozen=True)
class Episode:
    """An episode that is on disk: its measurements, and the actions of its sampler."""

    seq: int  # Number in the log, from 1 without gaps.
    measured: EpisodeMeasured
    actions: bytes
    learned: bool  # An update has consumed it already.

    @property
    def number(self) -> int:
        return self.measured.episode

    @property
    def valid(self) -> NDArray[np.bool_]:
        """[count] Whether each placement fits."""
        valid: NDArray[np.bool_] = self.measured.valid == 1
        return valid

    @property
    def step_time_s(self) -> NDArray[np.float64]:
        return self.measured.step_time_s


class LogFollower:
    """Reads the log in order. Lost entries are asked for again; `take` sees each entry once."""

    def __init__(self, actor: Actor, take: Callable[[Episode], None]) -> None:
        self._actor, self._take = actor, take
        self.next = self._until = 1
        self._gap = False
        self._received = self._asked = 0.0

    def start(self, first: int = 1) -> None:
        self.next = self._until = first
        self._ask(again=True)
        self._actor.after(_TIMEOUT / 4, self._tick)

    def _tick(self) -> None:
        self._ask_if_due()
        self._actor.after(_TIMEOUT / 4, self._tick)

    def _ask(self, again: bool) -> None:
        self._until, self._asked = self.next + _WINDOW, time.monotonic()
        self._gap = self._gap and not again
        self._actor.send(RECORDER, LogRequested(self.next, self._until, again, True))

    def _ask_if_due(self) -> None:
        now = time.monotonic()
        late = now - max(self._received, self._asked) >= _TIMEOUT
        again = late or (self._gap and now - self._asked >= _TIMEOUT / 4)
        if again or self._until - self.next <= _WINDOW // 2:
            self._ask(again)

    def on_committed(self, incoming: Incoming) -> EpisodeCommitted:
        """Call for every EpisodeCommitted. Copies that the recorder pushes to a sampler have no actions: not
        of the log.
        """
        committed = incoming.read(EpisodeCommitted)
        if committed.actions.size == 0:
            return committed
        self._gap |= committed.seq > self.next
        if committed.seq == self.next:
            self.next += 1
            self._received = time.monotonic()
            actions = bytes(incoming.section(committed.actions))
            self._take(Episode(committed.seq, committed.measured, actions, committed.learned))
        self._ask_if_due()
        return committed

"""Recording. The log of the recorder, and what samplers and dispatcher ask about it."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from emplace.actor.messages.measuring import EpisodeMeasured
from emplace.actor.wire import U32, U64, Bool, Bulk, Message, Section, U64s, message, none_of


@message(4)
class EpisodeCommitted(Message):
    """recorder -> baseline tracker, learner and the proposing sampler, after the commit to disk."""

    seq: U64 = 0
    measured: EpisodeMeasured = field(default_factory=EpisodeMeasured)
    actions: Bulk = Section()
    learned: Bool = False


@message(71)
class LogRequested(Message):
    """baseline tracker and learner -> recorder: requests EpisodeCommitted from `from_seq` up to, not …."""

    from_seq: U64 = 1
    until_seq: U64 = 1
    again: Bool = False
    actions: Bool = False


@message(76)
class EpisodesAsked(Message):
    """sampler -> recorder and dispatcher: requests the state of these episodes."""

    controller: U32 = 0
    controllers: U32 = 1
    starting: Bool = False
    episodes: U64s = none_of(np.uint64)


@message(77)
class EpisodesKnown(Message):
    """recorder -> sampler: answer to EpisodesAsked."""

    starting: Bool = False
    ended: U64s = none_of(np.uint64)
    recorded: U64s = none_of(np.uint64)
    unknown: U64s = none_of(np.uint64)
    missing: U64s = none_of(np.uint64)
    next_episode: U64 = 0
    committed: U64 = 0


@message(78)
class EpisodesWanted(Message):
    """dispatcher -> sampler: these episodes are unknown; the sampler proposes them again."""

    episodes: U64s = none_of(np.uint64)


@message(88)
class CountRequested(Message):
    """dispatcher -> recorder: requests the number of episodes on disk."""


@message(89)
class EpisodesCounted(Message):
    """recorder -> dispatcher: answer to CountRequested."""

    committed: U64 = 0
    unlearned: U64 = 0

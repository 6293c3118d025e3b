"""Learning. Scores, updates, parameters and checkpoints."""

from __future__ import annotations

import numpy as np

from emplace.actor.wire import (
    F64,
    U32,
    U64,
    Bool,
    Bulk,
    F32s,
    F64s,
    Message,
    Section,
    Text,
    U8s,
    U32s,
    U64s,
    message,
    none_of,
)


@message(5)
class EpisodeScored(Message):
    """baseline tracker -> learner: costs and advantages of the placements of an episode."""

    episode: U64 = 0
    controller: U32 = 0
    policy_version: U64 = 0
    graph_sha256: Text = ""
    costs: F64s = none_of(np.float64)
    advantages: F64s = none_of(np.float64)
    baseline: F64 = 0.0
    valid: U8s = none_of(np.uint8)
    counted: U8s = none_of(np.uint8)
    seq: U64 = 0


@message(73)
class ScoresRequested(Message):
    """learner -> baseline tracker: requests EpisodeScored again, from this log number on."""

    from_seq: U64 = 1


@message(6)
class UpdateApplied(Message):
    """learner -> recorder until UpdatesRecorded acknowledges it, and once to each sampler: an update …."""

    update: U64 = 0
    policy_version: U64 = 0
    episodes: U64s = none_of(np.uint64)
    staleness_mean: F64 = 0.0
    staleness_max: U64 = 0
    gradient_norm: F64 = 0.0
    loss: F64 = 0.0
    entropy: F64 = 0.0
    parameters_sha256: Text = ""
    learning_rate: F64 = 0.0
    wall_s: F64 = 0.0
    advantages: F32s = none_of(np.float32)
    epoch: U64 = 0
    log_probability: F64 = 0.0
    divergence: F64 = 0.0


@message(75)
class UpdatesRecorded(Message):
    """recorder -> learner, after a commit: updates up to and including this one are on disk."""

    update: U64 = 0


@message(128)
class ParametersPublished(Message):
    """learner -> samplers: newer parameters exist."""

    version: U64 = 0
    sha256: Text = ""
    size: U64 = 0


@message(70)
class ParametersRequested(Message):
    """sampler -> learner: requests a chunk of the parameters."""

    version: U64 = 0
    offset: U64 = 0
    exact: Bool = False


@message(9)
class ParametersDelivered(Message):
    """learner -> sampler."""

    version: U64 = 0
    offset: U64 = 0
    total: U64 = 0
    sha256: Text = ""
    floats: Bulk = Section()
    checksum: U64 = 0


@message(7)
class CheckpointTaken(Message):
    """learner -> recorder."""

    version: U64 = 0
    update: U64 = 0
    sha256: Text = ""
    parameters: Bulk = Section()
    optimizer: Bulk = Section()
    epoch: U64 = 0
    offset: U64 = 0
    total: U64 = 0


@message(86)
class CheckpointRequested(Message):
    """learner -> recorder, after a restart: requests a chunk of a checkpoint, from `offset` on."""

    versions_back: U64 = 0
    offset: U64 = 0
    epoch: U64 = 0


@message(10)
class CheckpointDelivered(Message):
    """recorder -> learner."""

    found: Bool = False
    update: U64 = 0
    sha256: Text = ""
    parameters: U64 = 0
    total: U64 = 0
    offset: U64 = 0
    piece: Bulk = Section()


@message(87)
class UpdateRequested(Message):
    """learner -> recorder, after a restart: requests the update after `after`."""

    after: U64 = 0
    epoch: U64 = 0


@message(11)
class UpdateReplayed(Message):
    """recorder -> learner."""

    after: U64 = 0
    update: U64 = 0
    episodes: U64s = none_of(np.uint64)
    sizes: U64s = none_of(np.uint64)
    counts: U32s = none_of(np.uint32)
    actions: Bulk = Section()
    advantages: F32s = none_of(np.float32)
    parameters_sha256: Text = ""
    unlearned_from: U64 = 1

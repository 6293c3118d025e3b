"""The messages that executors, samplers and learners exchange with a run, as docs/reference/wire_messages.md
lists them (a test compares). An actor that needs another one of that page declares it in the same way.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from emplace.wire.codec import (
    F64,
    MAX_U64,
    U8,
    U32,
    U64,
    Bool,
    Bulk,
    F32s,
    F64s,
    I64s,
    Message,
    Section,
    Text,
    Texts,
    U8s,
    U16s,
    U32s,
    U64s,
    none_of,
)

# Sessions: the only messages of type 0xFF00 and above.


class Hello(Message, number=0xFF00):
    """Dialling node -> head: the first message on each connection, repeated every heartbeat
    until the Welcome.
    """

    node: Text = ""
    epoch: U64 = 0
    plane: U8 = 0
    first_seq: U64 = 1
    actors: Texts = field(default_factory=list)
    wire: U8 = 1
    oldest_wire: U8 = 1


class Welcome(Message, number=0xFF01):
    """Head -> dialling node, on the same connection."""

    node: Text = ""
    epoch: U64 = 0
    plane: U8 = 0
    first_seq: U64 = 1
    actors: Texts = field(default_factory=list)


class Beat(Message, number=0xFF02):
    """Both ways, every heartbeat, on the control connection."""

    joined: Texts = field(default_factory=list)
    left: Texts = field(default_factory=list)


class Bye(Message, number=0xFF03):
    """Both ways: the final message on a connection."""

    reason: Text = ""
    fenced: Bool = False
    final: Bool = False
    over: Bool = False


class ByeAck(Message, number=0xFF04):
    """Acknowledges that everything before the Bye has arrived."""

    plane: U8 = 0


# Measuring: executors, dispatcher, and the proposals of samplers.


class MeasurementColumns(Message):
    """A struct: `count` measurements on `num_devices` devices as columns, row after row."""

    count: U32 = 0
    num_devices: U32 = 0
    valid: U8s = none_of(np.uint8)
    step_time_s: F64s = none_of(np.float64)
    bytes_over: I64s = none_of(np.int64)
    bytes_moved: I64s = none_of(np.int64)
    peak_bytes: I64s = none_of(np.int64)
    busy_s: F64s = none_of(np.float64)
    synthetic_shares: F64s = none_of(np.float64)
    failures: Texts = field(default_factory=list)
    labels: U8s = none_of(np.uint8)
    sample_counts: U32s = none_of(np.uint32)
    samples_s: F64s = none_of(np.float64)


class ExecutorJoined(Message, number=64):
    """executor -> dispatcher, with the first credit."""

    name: Text = ""
    host: Text = ""
    kind: Text = ""
    graph_sha256: Text = ""
    devices: U32 = 0
    epoch: U64 = 0
    placements: U32 = 0
    bytes: U64 = 0
    node: Text = ""
    cores: U32 = 0
    memory_bytes: U64 = 0
    version: Text = ""


class ExecutorUnknown(Message, number=79):
    """dispatcher -> executor: a heartbeat came from an executor that has not joined; it must join."""

    epoch: U64 = 0


class CreditGranted(Message, number=67):
    """executor -> dispatcher: grants additional credit."""

    executor: Text = ""
    epoch: U64 = 0
    placements: U32 = 0
    bytes: U64 = 0


class Heartbeat(Message, number=66):
    """executor -> dispatcher."""

    executor: Text = ""
    epoch: U64 = 0
    leases: U64s = none_of(np.uint64)
    busy_s: F64 = 0.0
    seen: U64 = MAX_U64


class ExecutorLeft(Message, number=65):
    """executor -> dispatcher."""

    executor: Text = ""
    epoch: U64 = 0
    reason: Text = ""
    leases: U64s = none_of(np.uint64)
    seen: U64 = 0


class PlacementProposed(Message, number=1):
    """sampler -> dispatcher: the `count` placements of one episode, to be measured."""

    graph_sha256: Text = ""
    controller: U32 = 0
    episode: U64 = 0
    placement_id: U64 = 0
    count: U32 = 0
    policy_version: U64 = 0
    num_ops: U32 = 0
    num_devices: U32 = 0
    placements: Bulk = Section()
    actions: Bulk = Section()


class LeaseGranted(Message, number=18):
    """dispatcher -> executor: a range of an episode's placements, to be measured under a lease."""

    graph_sha256: Text = ""
    placement_id: U64 = 0
    count: U32 = 0
    num_ops: U32 = 0
    num_devices: U32 = 0
    lease_epoch: U64 = 0
    attempt: U32 = 0
    deadline_ms: U32 = 0
    executor_epoch: U64 = 0
    placements: Bulk = Section()


class PlacementMeasured(MeasurementColumns, number=2):
    """executor -> dispatcher."""

    placement_id: U64 = 0
    lease_epoch: U64 = 0
    host: Text = ""
    executor: Text = ""
    executor_kind: Text = ""
    wall_s: F64 = 0.0
    error: Text = ""


class EpisodeMeasured(MeasurementColumns):
    """A struct: a finished episode, merged from its leases, with the executor of each placement."""

    graph_sha256: Text = ""
    controller: U32 = 0
    episode: U64 = 0
    placement_id: U64 = 0
    policy_version: U64 = 0
    num_ops: U32 = 0
    executors: Texts = field(default_factory=list)
    executor_kinds: Texts = field(default_factory=list)
    hosts: Texts = field(default_factory=list)
    executor_of: U16s = none_of(np.uint16)
    attempt: U32s = none_of(np.uint32)
    wall_s: F64 = 0.0


class SamplerDrained(Message, number=90):
    """sampler -> dispatcher, when it was asked to stop and its last episode has ended."""

    sampler: Text = ""


class StopRun(Message, number=68):
    """operator or node -> dispatcher, and dispatcher -> samplers: finish the work in flight,
    then end.
    """

    reason: Text = ""


# Recording: the log of the recorder, and what samplers and dispatcher ask about it.


class EpisodeCommitted(Message, number=4):
    """recorder -> baseline tracker, learner and the proposing sampler, after the commit to disk."""

    seq: U64 = 0
    measured: EpisodeMeasured = field(default_factory=EpisodeMeasured)
    actions: Bulk = Section()
    learned: Bool = False


class LogRequested(Message, number=71):
    """baseline tracker and learner -> recorder: requests EpisodeCommitted from `from_seq` up to, not
    including, `until_seq`.
    """

    from_seq: U64 = 1
    until_seq: U64 = 1
    again: Bool = False
    actions: Bool = False


class EpisodesAsked(Message, number=76):
    """sampler -> recorder and dispatcher: requests the state of these episodes."""

    controller: U32 = 0
    controllers: U32 = 1
    starting: Bool = False
    episodes: U64s = none_of(np.uint64)


class EpisodesKnown(Message, number=77):
    """recorder -> sampler: answer to EpisodesAsked."""

    starting: Bool = False
    ended: U64s = none_of(np.uint64)
    recorded: U64s = none_of(np.uint64)
    unknown: U64s = none_of(np.uint64)
    missing: U64s = none_of(np.uint64)
    next_episode: U64 = 0
    committed: U64 = 0


class EpisodesWanted(Message, number=78):
    """dispatcher -> sampler: these episodes are unknown; the sampler proposes them again."""

    episodes: U64s = none_of(np.uint64)


# Learning: scores, updates, parameters and checkpoints.


class EpisodeScored(Message, number=5):
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


class ScoresRequested(Message, number=73):
    """learner -> baseline tracker: requests EpisodeScored again, from this log number on."""

    from_seq: U64 = 1


class UpdateApplied(Message, number=6):
    """learner -> recorder until UpdatesRecorded acknowledges it, and once to each sampler: an update
    of the parameters.
    """

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


class UpdatesRecorded(Message, number=75):
    """recorder -> learner, after a commit: updates up to and including this one are on disk."""

    update: U64 = 0


class ParametersPublished(Message, number=128):
    """learner -> samplers: newer parameters exist."""

    version: U64 = 0
    sha256: Text = ""
    size: U64 = 0


class ParametersRequested(Message, number=70):
    """sampler -> learner: requests a chunk of the parameters."""

    version: U64 = 0
    offset: U64 = 0
    exact: Bool = False


class ParametersDelivered(Message, number=9):
    """learner -> sampler."""

    version: U64 = 0
    offset: U64 = 0
    total: U64 = 0
    sha256: Text = ""
    floats: Bulk = Section()
    checksum: U64 = 0


class CheckpointTaken(Message, number=7):
    """learner -> recorder."""

    version: U64 = 0
    update: U64 = 0
    sha256: Text = ""
    parameters: Bulk = Section()
    optimizer: Bulk = Section()
    epoch: U64 = 0
    offset: U64 = 0
    total: U64 = 0


class CheckpointRequested(Message, number=86):
    """learner -> recorder, after a restart: requests a chunk of a checkpoint, from `offset` on."""

    versions_back: U64 = 0
    offset: U64 = 0
    epoch: U64 = 0


class CheckpointDelivered(Message, number=10):
    """recorder -> learner."""

    found: Bool = False
    update: U64 = 0
    sha256: Text = ""
    parameters: U64 = 0
    total: U64 = 0
    offset: U64 = 0
    piece: Bulk = Section()


class UpdateRequested(Message, number=87):
    """learner -> recorder, after a restart: requests the update after `after`."""

    after: U64 = 0
    epoch: U64 = 0


class UpdateReplayed(Message, number=11):
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


# The run: settings, files, status and progress.


class FileFacts(Message):
    """A struct: a file of the run."""

    path: Text = ""
    sha256: Text = ""
    bytes: U64 = 0


class ManifestRequested(Message, number=80):
    """node -> library: requests the manifest of the run."""

    node: Text = ""
    version: Text = ""


class ManifestDelivered(Message, number=12):
    """library -> node: settings and files of the run."""

    version: Text = ""
    start: Text = ""
    config: Text = ""
    cluster: Text = ""
    files: list[FileFacts] = field(default_factory=list)
    more_starts: Bool = False


class FileRequested(Message, number=81):
    """node -> library: requests a chunk of a file."""

    sha256: Text = ""
    offset: U64 = 0


class FileDelivered(Message, number=13):
    """library -> node."""

    sha256: Text = ""
    offset: U64 = 0
    piece: Bulk = Section()
    error: Text = ""


class ActorStatus(Message):
    """A struct: state of one actor."""

    name: Text = ""
    handled: U64 = 0
    waiting: U64 = 0
    restarts: U32 = 0
    last_error: Text = ""


class NodeReported(Message, number=130):
    """node -> view, every second: state of the node and its actors."""

    node: Text = ""
    host: Text = ""
    version: Text = ""
    pid: U64 = 0
    uptime_s: F64 = 0.0
    actors: list[ActorStatus] = field(default_factory=list)
    sent: U64 = 0
    received: U64 = 0
    refused: U64 = 0
    dropped: U64 = 0
    peers_lost: U64 = 0
    restarts: U32 = 0

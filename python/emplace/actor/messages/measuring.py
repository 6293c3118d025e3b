"""Measuring. Executors, dispatcher, and the proposals of samplers."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from emplace.actor.wire import (
    F64,
    MAX_U64,
    U32,
    U64,
    Bulk,
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
    message,
    none_of,
)


@message()
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


@message(64)
class ExecutorJoined(Message):
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


@message(79)
class ExecutorUnknown(Message):
    """dispatcher -> executor: a heartbeat came from an executor that has not joined; it must join."""

    epoch: U64 = 0


@message(67)
class CreditGranted(Message):
    """executor -> dispatcher: grants additional credit."""

    executor: Text = ""
    epoch: U64 = 0
    placements: U32 = 0
    bytes: U64 = 0


@message(66)
class Heartbeat(Message):
    """executor -> dispatcher."""

    executor: Text = ""
    epoch: U64 = 0
    leases: U64s = none_of(np.uint64)
    busy_s: F64 = 0.0
    seen: U64 = MAX_U64


@message(65)
class ExecutorLeft(Message):
    """executor -> dispatcher."""

    executor: Text = ""
    epoch: U64 = 0
    reason: Text = ""
    leases: U64s = none_of(np.uint64)
    seen: U64 = 0


@message(1)
class PlacementProposed(Message):
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


@message(18)
class LeaseGranted(Message):
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


@message(2)
class PlacementMeasured(MeasurementColumns):
    """executor -> dispatcher."""

    placement_id: U64 = 0
    lease_epoch: U64 = 0
    host: Text = ""
    executor: Text = ""
    executor_kind: Text = ""
    wall_s: F64 = 0.0
    error: Text = ""


@message()
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


@message(3)
class EpisodeReported(Message):
    """dispatcher -> recorder, to be made durable."""

    measured: EpisodeMeasured = field(default_factory=EpisodeMeasured)
    placements: Bulk = Section()
    actions: Bulk = Section()


@message(74)
class EpisodesRecorded(Message):
    """recorder -> dispatcher, after a commit: these episodes are on disk and need not be reported …."""

    episodes: U64s = none_of(np.uint64)
    committed: U64 = 0


@message(90)
class SamplerDrained(Message):
    """sampler -> dispatcher, when it was asked to stop and its last episode has ended."""

    sampler: Text = ""


@message(68)
class StopRun(Message):
    """operator or node -> dispatcher, and dispatcher -> samplers: finish the work in flight, then …."""

    reason: Text = ""

"""The run. Settings, files, status and progress."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from emplace.actor.wire import F64, U32, U64, Bool, Bulk, Message, Section, Text, U64s, message, none_of


@message()
class FileFacts(Message):
    """A struct: a file of the run."""

    path: Text = ""
    sha256: Text = ""
    bytes: U64 = 0


@message(80)
class ManifestRequested(Message):
    """node -> library: requests the manifest of the run."""

    node: Text = ""
    version: Text = ""


@message(12)
class ManifestDelivered(Message):
    """library -> node: settings and files of the run."""

    version: Text = ""
    start: Text = ""
    config: Text = ""
    cluster: Text = ""
    files: list[FileFacts] = field(default_factory=list)
    more_starts: Bool = False


@message(81)
class FileRequested(Message):
    """node -> library: requests a chunk of a file."""

    sha256: Text = ""
    offset: U64 = 0


@message(13)
class FileDelivered(Message):
    """library -> node."""

    sha256: Text = ""
    offset: U64 = 0
    piece: Bulk = Section()
    error: Text = ""


@message()
class ActorStatus(Message):
    """A struct: state of one actor."""

    name: Text = ""
    handled: U64 = 0
    waiting: U64 = 0
    restarts: U32 = 0
    last_error: Text = ""


@message(130)
class NodeReported(Message):
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


@message()
class LeaseCounts(Message):
    """A struct: lease counts of the dispatcher."""

    issued: U64 = 0
    counted: U64 = 0
    open: U64 = 0
    expired: U64 = 0
    refused: U64 = 0


@message()
class ExecutorUse(Message):
    """A struct: use of one executor."""

    executor: Text = ""
    utilisation: F64 = 0.0
    placements: U64 = 0
    in_flight: U32 = 0
    credit: U32 = 0


@message(131)
class DispatchProgress(Message):
    """dispatcher -> view: progress of the dispatcher."""

    episodes: U64 = 0
    measurements: U64 = 0
    valid: U64 = 0
    refused_results: U64 = 0
    in_flight: U32 = 0
    quarantined: U32 = 0
    leases: LeaseCounts = field(default_factory=LeaseCounts)
    best_step_time_s: F64 = 0.0
    elapsed_s: F64 = 0.0
    ending: Text = ""
    executors: list[ExecutorUse] = field(default_factory=list)
    executors_wanted: U32 = 0


@message(132)
class RecordProgress(Message):
    """recorder -> view, after each commit: contents of the record."""

    committed: U64 = 0
    updates: U64 = 0
    staleness: F64 = 0.0
    disk_waits_s: F64 = 0.0


@message(92)
class ConsumedTwice(Message):
    """baseline tracker and learner -> view: placements whose measurements were consumed twice."""

    placement_ids: U64s = none_of(np.uint64)


@message(129)
class RunProgress(Message):
    """view -> launcher: summary of the whole run."""

    dispatch: DispatchProgress = field(default_factory=DispatchProgress)
    record: RecordProgress = field(default_factory=RecordProgress)
    utilisation: F64 = 0.0
    duplicated: U64 = 0


@message()
class NodeStatus(Message):
    """A struct: state of one node, as the view knows it."""

    report: NodeReported = field(default_factory=NodeReported)
    age_s: F64 = 0.0
    restarts: U32 = 0
    executors: U32 = 0
    placements: U64 = 0
    in_flight: U32 = 0
    utilisation: F64 = 0.0
    evaluations_per_s: F64 = 0.0
    credit: U64 = 0


@message(82)
class StatusRequested(Message):
    """operator -> view: requests the state of the run."""

    request: U64 = 0


@message(14)
class StatusDelivered(Message):
    """view -> operator: answer to StatusRequested."""

    request: U64 = 0
    run: Text = ""
    start: Text = ""
    graph: Text = ""
    method: Text = ""
    progress: RunProgress = field(default_factory=RunProgress)
    evaluations_per_s: F64 = 0.0
    nodes: list[NodeStatus] = field(default_factory=list)
    more_starts: Bool = False

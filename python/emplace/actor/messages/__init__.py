"""Every message of the wire format, by the tables of docs/reference/wire_messages.md (a test compares them)."""

from __future__ import annotations

from emplace.actor.messages.between_nodes import (
    Beat, Bye, ByeAck, Hello, Welcome,
)
from emplace.actor.messages.measuring import (
    CreditGranted, EpisodeMeasured, EpisodeReported, EpisodesRecorded, ExecutorJoined, ExecutorLeft,
    ExecutorUnknown, Heartbeat, LeaseGranted, MeasurementColumns, PlacementMeasured, PlacementProposed,
    SamplerDrained, StopRun,
)
from emplace.actor.messages.recording import (
    CountRequested, EpisodeCommitted, EpisodesAsked, EpisodesCounted, EpisodesKnown, EpisodesWanted,
    LogRequested,
)
from emplace.actor.messages.learning import (
    CheckpointDelivered, CheckpointRequested, CheckpointTaken, EpisodeScored, ParametersDelivered,
    ParametersPublished, ParametersRequested, ScoresRequested, UpdateApplied, UpdateReplayed,
    UpdateRequested, UpdatesRecorded,
)
from emplace.actor.messages.run import (
    ActorStatus, ConsumedTwice, DispatchProgress, ExecutorUse, FileDelivered, FileFacts, FileRequested,
    LeaseCounts, ManifestDelivered, ManifestRequested, NodeReported, NodeStatus, RecordProgress,
    RunProgress, StatusDelivered, StatusRequested,
)
from emplace.actor.messages.executor_process import (
    DeviceFacts, ExecutorBeat, ExecutorProfiled, ExecutorReady, ExecutorRefused, Measurement,
    PlacementRan, PlacementTraced, PlacementVerified, PrepareExecutor, ProfileFacts, RunPlacement,
    ScheduleFacts, TaskFailed, VerificationFacts,
)

__all__ = [
    "Beat", "Bye", "ByeAck", "Hello", "Welcome", "CreditGranted", "EpisodeMeasured", "EpisodeReported",
    "EpisodesRecorded", "ExecutorJoined", "ExecutorLeft", "ExecutorUnknown", "Heartbeat",
    "LeaseGranted", "MeasurementColumns", "PlacementMeasured", "PlacementProposed", "SamplerDrained",
    "StopRun", "CountRequested", "EpisodeCommitted", "EpisodesAsked", "EpisodesCounted",
    "EpisodesKnown", "EpisodesWanted", "LogRequested", "CheckpointDelivered", "CheckpointRequested",
    "CheckpointTaken", "EpisodeScored", "ParametersDelivered", "ParametersPublished",
    "ParametersRequested", "ScoresRequested", "UpdateApplied", "UpdateReplayed", "UpdateRequested",
    "UpdatesRecorded", "ActorStatus", "ConsumedTwice", "DispatchProgress", "ExecutorUse",
    "FileDelivered", "FileFacts", "FileRequested", "LeaseCounts", "ManifestDelivered",
    "ManifestRequested", "NodeReported", "NodeStatus", "RecordProgress", "RunProgress",
    "StatusDelivered", "StatusRequested", "DeviceFacts", "ExecutorBeat", "ExecutorProfiled",
    "ExecutorReady", "ExecutorRefused", "Measurement", "PlacementRan", "PlacementTraced",
    "PlacementVerified", "PrepareExecutor", "ProfileFacts", "RunPlacement", "ScheduleFacts",
    "TaskFailed", "VerificationFacts",
]

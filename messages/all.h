#pragma once
/// All messages as one type list, for code that treats them uniformly: tests and the register.

#include <tuple>

#include "messages/episode_measured.h"
#include "messages/executor_control.h"
#include "messages/executor_process.h"
#include "messages/learning.h"
#include "messages/library.h"
#include "messages/log.h"
#include "messages/placement_measured.h"
#include "messages/placement_proposed.h"
#include "messages/run_control.h"
#include "messages/status.h"

namespace emplace::messages {

/// For tests: round trips and golden files of every message.
using AllMessages =
    std::tuple<PlacementProposed, PlacementMeasured, EpisodeReported, EpisodeCommitted, EpisodeScored,
               UpdateApplied, CheckpointTaken, ParametersDelivered, CheckpointDelivered, UpdateReplayed,
               ManifestDelivered, FileDelivered, StatusDelivered, PrepareExecutor, RunPlacement, PlacementRan,
               LeaseGranted, PlacementTraced, PlacementVerified, ExecutorProfiled, ExecutorJoined,
               ExecutorLeft, Heartbeat, CreditGranted, StopRun, ParametersRequested, LogRequested,
               ScoresRequested, EpisodesRecorded, UpdatesRecorded, EpisodesAsked, EpisodesKnown,
               EpisodesWanted, ExecutorUnknown, ManifestRequested, FileRequested, StatusRequested,
               ExecutorReady, ExecutorRefused, ExecutorBeat, CheckpointRequested, UpdateRequested,
               CountRequested, EpisodesCounted, SamplerDrained, TaskFailed, ConsumedTwice,
               ParametersPublished, RunProgress, NodeReported, DispatchProgress, RecordProgress>;

}  // namespace emplace::messages

#pragma once
/// Every message, as a list for those who must treat all alike: tests and the register.

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

using AllMessages =
    std::tuple<PlacementProposed, PlacementMeasured, MeasurementReported, MeasurementCommitted, EpisodeScored,
               UpdateApplied, CheckpointTaken, BestFound, ParametersDelivered, ExecutorJoined, ExecutorLeft,
               Heartbeat, CreditGranted, StopRun, ActorFailed, ParametersRequested, ParametersPublished,
               RunProgress, CheckpointDelivered, UpdateReplayed, LogRequested, HistoryRequested,
               ScoresRequested, EpisodesRecorded, UpdatesRecorded, EpisodesAsked, EpisodesKnown,
               EpisodesWanted, ExecutorUnknown, ManifestRequested, ManifestDelivered, FileRequested,
               FileDelivered, NodeReported, StatusRequested, StatusDelivered, PrepareExecutor, RunPlacement,
               PlacementRan, ExecutorReady, ExecutorRefused, ExecutorBeat>;

}  // namespace emplace::messages

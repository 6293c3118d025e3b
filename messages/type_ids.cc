#include "messages/type_ids.h"

#include <string_view>

namespace emplace::messages {

const char* type_name(std::uint16_t type) {
  switch (Type{type}) {
    case Type::kPlacementProposed:
      return "PlacementProposed";
    case Type::kPlacementMeasured:
      return "PlacementMeasured";
    case Type::kEpisodeReported:
      return "EpisodeReported";
    case Type::kEpisodeCommitted:
      return "EpisodeCommitted";
    case Type::kEpisodeScored:
      return "EpisodeScored";
    case Type::kUpdateApplied:
      return "UpdateApplied";
    case Type::kCheckpointTaken:
      return "CheckpointTaken";
    case Type::kParametersDelivered:
      return "ParametersDelivered";
    case Type::kCheckpointDelivered:
      return "CheckpointDelivered";
    case Type::kUpdateReplayed:
      return "UpdateReplayed";
    case Type::kManifestDelivered:
      return "ManifestDelivered";
    case Type::kFileDelivered:
      return "FileDelivered";
    case Type::kStatusDelivered:
      return "StatusDelivered";
    case Type::kPrepareExecutor:
      return "PrepareExecutor";
    case Type::kRunPlacement:
      return "RunPlacement";
    case Type::kPlacementRan:
      return "PlacementRan";
    case Type::kLeaseGranted:
      return "LeaseGranted";
    case Type::kPlacementTraced:
      return "PlacementTraced";
    case Type::kPlacementVerified:
      return "PlacementVerified";
    case Type::kExecutorProfiled:
      return "ExecutorProfiled";
    case Type::kExecutorJoined:
      return "ExecutorJoined";
    case Type::kExecutorLeft:
      return "ExecutorLeft";
    case Type::kHeartbeat:
      return "Heartbeat";
    case Type::kCreditGranted:
      return "CreditGranted";
    case Type::kStopRun:
      return "StopRun";
    case Type::kParametersRequested:
      return "ParametersRequested";
    case Type::kLogRequested:
      return "LogRequested";
    case Type::kScoresRequested:
      return "ScoresRequested";
    case Type::kEpisodesRecorded:
      return "EpisodesRecorded";
    case Type::kUpdatesRecorded:
      return "UpdatesRecorded";
    case Type::kEpisodesAsked:
      return "EpisodesAsked";
    case Type::kEpisodesKnown:
      return "EpisodesKnown";
    case Type::kEpisodesWanted:
      return "EpisodesWanted";
    case Type::kExecutorUnknown:
      return "ExecutorUnknown";
    case Type::kManifestRequested:
      return "ManifestRequested";
    case Type::kFileRequested:
      return "FileRequested";
    case Type::kStatusRequested:
      return "StatusRequested";
    case Type::kExecutorReady:
      return "ExecutorReady";
    case Type::kExecutorRefused:
      return "ExecutorRefused";
    case Type::kExecutorBeat:
      return "ExecutorBeat";
    case Type::kCheckpointRequested:
      return "CheckpointRequested";
    case Type::kUpdateRequested:
      return "UpdateRequested";
    case Type::kCountRequested:
      return "CountRequested";
    case Type::kEpisodesCounted:
      return "EpisodesCounted";
    case Type::kSamplerDrained:
      return "SamplerDrained";
    case Type::kTaskFailed:
      return "TaskFailed";
    case Type::kConsumedTwice:
      return "ConsumedTwice";
    case Type::kParametersPublished:
      return "ParametersPublished";
    case Type::kRunProgress:
      return "RunProgress";
    case Type::kNodeReported:
      return "NodeReported";
    case Type::kDispatchProgress:
      return "DispatchProgress";
    case Type::kRecordProgress:
      return "RecordProgress";
  }
  return "unknown";
}

bool is_known(std::uint16_t type) { return std::string_view{type_name(type)} != "unknown"; }

}  // namespace emplace::messages

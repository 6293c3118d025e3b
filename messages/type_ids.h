#pragma once
/// The register of message numbers. A number never changes and is never reused. Its range gives the class
/// of the message (messages/envelope.h). Retired numbers, unknown to this version: 8 BestFound, 69
/// ActorFailed, 72 HistoryRequested.

#include <cstdint>

namespace emplace::messages {

enum class Type : std::uint16_t {
  // Data: in order, never dropped.
  kPlacementProposed = 1,
  kPlacementMeasured = 2,
  kEpisodeReported = 3,
  kEpisodeCommitted = 4,
  kEpisodeScored = 5,
  kUpdateApplied = 6,
  kCheckpointTaken = 7,
  kParametersDelivered = 9,
  kCheckpointDelivered = 10,
  kUpdateReplayed = 11,
  kManifestDelivered = 12,
  kFileDelivered = 13,
  kStatusDelivered = 14,
  kPrepareExecutor = 15,
  kRunPlacement = 16,
  kPlacementRan = 17,
  kLeaseGranted = 18,
  kPlacementTraced = 19,
  kPlacementVerified = 20,
  kExecutorProfiled = 21,
  // Control: small and urgent, on a connection of its own.
  kExecutorJoined = 64,
  kExecutorLeft = 65,
  kHeartbeat = 66,
  kCreditGranted = 67,
  kStopRun = 68,
  kParametersRequested = 70,
  kLogRequested = 71,
  kScoresRequested = 73,
  kEpisodesRecorded = 74,
  kUpdatesRecorded = 75,
  kEpisodesAsked = 76,
  kEpisodesKnown = 77,
  kEpisodesWanted = 78,
  kExecutorUnknown = 79,
  kManifestRequested = 80,
  kFileRequested = 81,
  kStatusRequested = 82,
  kExecutorReady = 83,
  kExecutorRefused = 84,
  kExecutorBeat = 85,
  kCheckpointRequested = 86,
  kUpdateRequested = 87,
  kCountRequested = 88,
  kEpisodesCounted = 89,
  kSamplerDrained = 90,
  kTaskFailed = 91,
  kConsumedTwice = 92,
  // Latest only: a newer message from the same sender replaces an older one that is still queued.
  kParametersPublished = 128,
  kRunProgress = 129,
  kNodeReported = 130,
  kDispatchProgress = 131,
  kRecordProgress = 132,
};

constexpr std::uint16_t number(Type type) { return static_cast<std::uint16_t>(type); }

/// True if `type` is in the register; a message of another type is refused and counted.
bool is_known(std::uint16_t type);
/// "PlacementProposed"; "unknown" for an unknown number.
const char* type_name(std::uint16_t type);

}  // namespace emplace::messages

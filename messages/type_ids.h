#pragma once
/// The register of message numbers. Never reused, never renumbered; the ranges have meaning
/// (messages/envelope.h).

#include <cstdint>

namespace emplace::messages {

enum class Type : std::uint16_t {
  // Data: in order, never dropped.
  kPlacementProposed = 1,
  kPlacementMeasured = 2,
  kMeasurementReported = 3,
  kMeasurementCommitted = 4,
  kEpisodeScored = 5,
  kUpdateApplied = 6,
  kCheckpointTaken = 7,
  kBestFound = 8,
  kParametersDelivered = 9,
  kCheckpointDelivered = 10,
  kUpdateReplayed = 11,
  kManifestDelivered = 12,
  kFileDelivered = 13,
  kStatusDelivered = 14,
  kPrepareExecutor = 15,
  kRunPlacement = 16,
  kPlacementRan = 17,
  // Control: small and urgent, on a connection of its own.
  kExecutorJoined = 64,
  kExecutorLeft = 65,
  kHeartbeat = 66,
  kCreditGranted = 67,
  kStopRun = 68,
  kActorFailed = 69,
  kParametersRequested = 70,
  kLogRequested = 71,
  kHistoryRequested = 72,
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
  // Latest only: a newer one from the same sender replaces an older one that still waits.
  kParametersPublished = 128,
  kRunProgress = 129,
  kNodeReported = 130,
};

constexpr std::uint16_t number(Type type) { return static_cast<std::uint16_t>(type); }

/// True if `type` is in the register; a message of another type is refused and counted.
bool is_known(std::uint16_t type);
/// "PlacementProposed", or "unknown".
const char* type_name(std::uint16_t type);

}  // namespace emplace::messages

#pragma once
/// The register of messages, by number. A number never changes and is never reused. Its range gives the class
/// of the message (messages/envelope.h). Retired numbers, unknown to this version: 8 BestFound, 69
/// ActorFailed, 72 HistoryRequested.

#include <cstdint>

/// Calls TYPE(NAME, NUMBER) for each message; Type, type_name and AllMessages (messages/all.h) come from it.
// clang-format off
#define EMPLACE_MESSAGES(TYPE)                                     \
  /* Data: in order, never dropped. */                             \
  TYPE(PlacementProposed, 1)                                       \
  TYPE(PlacementMeasured, 2)                                       \
  TYPE(EpisodeReported, 3)                                         \
  TYPE(EpisodeCommitted, 4)                                        \
  TYPE(EpisodeScored, 5)                                           \
  TYPE(UpdateApplied, 6)                                           \
  TYPE(CheckpointTaken, 7)                                         \
  TYPE(ParametersDelivered, 9)                                     \
  TYPE(CheckpointDelivered, 10)                                    \
  TYPE(UpdateReplayed, 11)                                         \
  TYPE(ManifestDelivered, 12)                                      \
  TYPE(FileDelivered, 13)                                          \
  TYPE(StatusDelivered, 14)                                        \
  TYPE(PrepareExecutor, 15)                                        \
  TYPE(RunPlacement, 16)                                           \
  TYPE(PlacementRan, 17)                                           \
  TYPE(LeaseGranted, 18)                                           \
  TYPE(PlacementTraced, 19)                                        \
  TYPE(PlacementVerified, 20)                                      \
  TYPE(ExecutorProfiled, 21)                                       \
  /* Control: small and urgent, on a connection of its own. */     \
  TYPE(ExecutorJoined, 64)                                         \
  TYPE(ExecutorLeft, 65)                                           \
  TYPE(Heartbeat, 66)                                              \
  TYPE(CreditGranted, 67)                                          \
  TYPE(StopRun, 68)                                                \
  TYPE(ParametersRequested, 70)                                    \
  TYPE(LogRequested, 71)                                           \
  TYPE(ScoresRequested, 73)                                        \
  TYPE(EpisodesRecorded, 74)                                       \
  TYPE(UpdatesRecorded, 75)                                        \
  TYPE(EpisodesAsked, 76)                                          \
  TYPE(EpisodesKnown, 77)                                          \
  TYPE(EpisodesWanted, 78)                                         \
  TYPE(ExecutorUnknown, 79)                                        \
  TYPE(ManifestRequested, 80)                                      \
  TYPE(FileRequested, 81)                                          \
  TYPE(StatusRequested, 82)                                        \
  TYPE(ExecutorReady, 83)                                          \
  TYPE(ExecutorRefused, 84)                                        \
  TYPE(ExecutorBeat, 85)                                           \
  TYPE(CheckpointRequested, 86)                                    \
  TYPE(UpdateRequested, 87)                                        \
  TYPE(CountRequested, 88)                                         \
  TYPE(EpisodesCounted, 89)                                        \
  TYPE(SamplerDrained, 90)                                         \
  TYPE(TaskFailed, 91)                                             \
  TYPE(ConsumedTwice, 92)                                          \
  /* Latest only: a newer message from the same sender replaces */ \
  /* an older one that is still queued. */                         \
  TYPE(ParametersPublished, 128)                                   \
  TYPE(RunProgress, 129)                                           \
  TYPE(NodeReported, 130)                                          \
  TYPE(DispatchProgress, 131)                                      \
  TYPE(RecordProgress, 132)
// clang-format on

namespace emplace::messages {

enum class Type : std::uint16_t {
#define EMPLACE_TYPE(name, number) k##name = (number),
  EMPLACE_MESSAGES(EMPLACE_TYPE)
#undef EMPLACE_TYPE
};

constexpr std::uint16_t number(Type type) { return static_cast<std::uint16_t>(type); }

/// True if `type` is in the register; a message of another type is refused and counted.
bool is_known(std::uint16_t type);
/// "PlacementProposed"; "unknown" for an unknown number.
const char* type_name(std::uint16_t type);

}  // namespace emplace::messages

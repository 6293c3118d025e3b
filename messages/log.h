#pragma once
/// Requests for the recorder's log. An actor that missed a message or restarted requests the entries again.

#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// baseline tracker and learner -> recorder: requests EpisodeCommitted from `from_seq` up to, not
/// including, `until_seq`, as they are committed.
struct LogRequested {
  static constexpr std::uint16_t kType = number(Type::kLogRequested);
  std::uint64_t from_seq = 1;
  std::uint64_t until_seq = 1;
  bool again = false;    ///< True: also entries that were sent before.
  bool actions = false;  ///< True: include the actions of each episode.
  EMPLACE_FIELDS(from_seq, until_seq, again, actions)
};

/// recorder -> dispatcher, after a commit: these episodes are on disk and need not be reported again.
struct EpisodesRecorded {
  static constexpr std::uint16_t kType = number(Type::kEpisodesRecorded);
  std::vector<std::uint64_t> episodes;
  std::uint64_t committed = 0;  ///< Number of episodes of the run on disk.
  EMPLACE_FIELDS(episodes, committed)
};

/// recorder -> learner, after a commit: updates up to and including this one are on disk.
struct UpdatesRecorded {
  static constexpr std::uint16_t kType = number(Type::kUpdatesRecorded);
  std::uint64_t update = 0;
  EMPLACE_FIELDS(update)
};

/// learner -> recorder, after a restart: requests a chunk of a checkpoint, from `offset` on.
struct CheckpointRequested {
  static constexpr std::uint16_t kType = number(Type::kCheckpointRequested);
  std::uint64_t versions_back = 0;  ///< The newest checkpoint at least this many updates old, or the oldest.
  std::uint64_t offset = 0;         ///< Position in the checkpoint [bytes]; 0 selects the checkpoint again.
  std::uint64_t epoch = 0;          ///< The learner's incarnation; earlier ones are fenced.
  EMPLACE_FIELDS(versions_back, offset, epoch)
};

/// learner -> recorder, after a restart: requests the update after `after`.
struct UpdateRequested {
  static constexpr std::uint16_t kType = number(Type::kUpdateRequested);
  std::uint64_t after = 0;
  std::uint64_t epoch = 0;  ///< The learner's incarnation; earlier ones are fenced.
  EMPLACE_FIELDS(after, epoch)
};

/// recorder -> learner. At most kParametersChunkBytes of parameters, then optimizer.
struct CheckpointDelivered {
  static constexpr std::uint16_t kType = number(Type::kCheckpointDelivered);
  bool found = false;  ///< False: no update was ever recorded, and the other fields are empty.
  std::uint64_t update = 0;
  std::string sha256;            ///< Hash of the parameters.
  std::uint64_t parameters = 0;  ///< Size of the parameters [bytes].
  std::uint64_t total = 0;       ///< Size of parameters and optimizer [bytes].
  std::uint64_t offset = 0;      ///< [bytes]
  Section piece;                 ///< A chunk of the content.
  EMPLACE_FIELDS(found, update, sha256, parameters, total, offset, piece)
};

/// recorder -> learner. A recorded update.
struct UpdateReplayed {
  static constexpr std::uint16_t kType = number(Type::kUpdateReplayed);
  std::uint64_t after = 0;              ///< Copied from UpdateRequested.
  std::uint64_t update = 0;             ///< Update number, after + 1; 0: no later update is recorded.
  std::vector<std::uint64_t> episodes;  ///< Consumed episodes, in order.
  std::vector<std::uint64_t> sizes;     ///< [episodes] Size of the actions of each episode [bytes].
  std::vector<std::uint32_t> counts;    ///< [episodes] Number of advantages of each episode.
  Section actions;                      ///< Actions, episode after episode.
  std::vector<float> advantages;        ///< Advantages as used, episode after episode.
  std::string parameters_sha256;        ///< Hash of the parameters after the update.
  std::uint64_t unlearned_from = 1;     ///< Log number of the first episode that no update consumed.
  EMPLACE_FIELDS(after, update, episodes, sizes, counts, actions, advantages, parameters_sha256,
                 unlearned_from)
};

/// learner -> baseline tracker: requests EpisodeScored again, from this log number on.
struct ScoresRequested {
  static constexpr std::uint16_t kType = number(Type::kScoresRequested);
  std::uint64_t from_seq = 1;
  EMPLACE_FIELDS(from_seq)
};

/// sampler -> recorder and dispatcher: requests the state of these episodes.
struct EpisodesAsked {
  static constexpr std::uint16_t kType = number(Type::kEpisodesAsked);
  std::uint32_t controller = 0;
  std::uint32_t controllers = 1;
  bool starting = false;  ///< True: the sampler restarted and has no history.
  std::vector<std::uint64_t> episodes;
  EMPLACE_FIELDS(controller, controllers, starting, episodes)
};

/// recorder -> sampler: answer to EpisodesAsked.
struct EpisodesKnown {
  static constexpr std::uint16_t kType = number(Type::kEpisodesKnown);
  bool starting = false;  ///< Echoes EpisodesAsked.
  /// Requested episodes that were consumed by an update (in a run without a learner: that are on disk).
  std::vector<std::uint64_t> ended;
  /// Requested episodes, or all if `starting`, that are on disk and not consumed.
  std::vector<std::uint64_t> recorded;
  std::vector<std::uint64_t> unknown;  ///< Requested episodes that are not on disk.
  std::vector<std::uint64_t> missing;  ///< If `starting`: episodes below `next_episode` that are not on disk.
  /// If `starting`: the first episode of this controller after all that are on disk.
  std::uint64_t next_episode = 0;
  std::uint64_t committed = 0;  ///< Number of episodes of the run on disk.
  EMPLACE_FIELDS(starting, ended, recorded, unknown, missing, next_episode, committed)
};

/// dispatcher -> recorder: requests the number of episodes on disk.
struct CountRequested {
  static constexpr std::uint16_t kType = number(Type::kCountRequested);
  EMPLACE_NO_FIELDS
};

/// recorder -> dispatcher: answer to CountRequested.
struct EpisodesCounted {
  static constexpr std::uint16_t kType = number(Type::kEpisodesCounted);
  std::uint64_t committed = 0;  ///< Number of episodes of the run on disk.
  std::uint64_t unlearned = 0;  ///< Number of episodes on disk that no update on disk has consumed.
  EMPLACE_FIELDS(committed, unlearned)
};

/// sampler -> dispatcher, when it was asked to stop and its last episode has ended.
struct SamplerDrained {
  static constexpr std::uint16_t kType = number(Type::kSamplerDrained);
  std::string sampler;  ///< Actor name.
  EMPLACE_FIELDS(sampler)
};

/// dispatcher -> sampler: these episodes are unknown; the sampler proposes them again.
struct EpisodesWanted {
  static constexpr std::uint16_t kType = number(Type::kEpisodesWanted);
  std::vector<std::uint64_t> episodes;
  EMPLACE_FIELDS(episodes)
};

/// dispatcher -> executor: a heartbeat came from an executor that has not joined; it must join.
struct ExecutorUnknown {
  static constexpr std::uint16_t kType = number(Type::kExecutorUnknown);
  std::uint64_t epoch = 0;  ///< Epoch of the heartbeat.
  EMPLACE_FIELDS(epoch)
};

}  // namespace emplace::messages

#pragma once
/// The recorder's log as its followers ask for it: whoever missed something, or was made anew, asks again.

#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// baseline tracker and learner -> recorder. Send EpisodeCommitted from `from_seq` on, as they come, up
/// to `until_seq` (not included).
struct LogRequested {
  static constexpr std::uint16_t kType = number(Type::kLogRequested);
  std::uint64_t from_seq = 1;
  std::uint64_t until_seq = 1;
  bool again = false;    ///< Also what was sent before; else only what was not.
  bool actions = false;  ///< With the actions of each episode.
  EMPLACE_FIELDS(from_seq, until_seq, again, actions)
};

/// recorder -> dispatcher, after a commit: these are on disk and need not be reported again.
struct EpisodesRecorded {
  static constexpr std::uint16_t kType = number(Type::kEpisodesRecorded);
  std::vector<std::uint64_t> episodes;
  std::uint64_t committed = 0;  ///< Episodes of the run on disk.
  EMPLACE_FIELDS(episodes, committed)
};

/// recorder -> learner, after a commit: updates up to this one are on disk.
struct UpdatesRecorded {
  static constexpr std::uint16_t kType = number(Type::kUpdatesRecorded);
  std::uint64_t update = 0;
  EMPLACE_FIELDS(update)
};

/// learner -> recorder, when it restarts: a piece of a checkpoint, from `offset` on.
struct CheckpointRequested {
  static constexpr std::uint16_t kType = number(Type::kCheckpointRequested);
  std::uint64_t versions_back = 0;  ///< The newest checkpoint at least this many updates old, or the oldest.
  std::uint64_t offset = 0;         ///< [bytes] 0: chooses the checkpoint anew.
  std::uint64_t epoch = 0;          ///< The learner's incarnation; earlier ones are fenced.
  EMPLACE_FIELDS(versions_back, offset, epoch)
};

/// learner -> recorder, when it restarts: the update after `after`.
struct UpdateRequested {
  static constexpr std::uint16_t kType = number(Type::kUpdateRequested);
  std::uint64_t after = 0;
  std::uint64_t epoch = 0;  ///< The learner's incarnation; earlier ones are fenced.
  EMPLACE_FIELDS(after, epoch)
};

/// recorder -> learner. At most kParametersChunkBytes of parameters, then optimizer.
struct CheckpointDelivered {
  static constexpr std::uint16_t kType = number(Type::kCheckpointDelivered);
  bool found = false;  ///< False: nothing was ever learned; the rest is empty.
  std::uint64_t update = 0;
  std::string sha256;            ///< Of the parameters.
  std::uint64_t parameters = 0;  ///< [bytes]
  std::uint64_t total = 0;       ///< [bytes] parameters and optimizer
  std::uint64_t offset = 0;      ///< [bytes]
  Section piece;
  EMPLACE_FIELDS(found, update, sha256, parameters, total, offset, piece)
};

/// recorder -> learner. An update as it was made.
struct UpdateReplayed {
  static constexpr std::uint16_t kType = number(Type::kUpdateReplayed);
  std::uint64_t after = 0;              ///< As UpdateRequested has it.
  std::uint64_t update = 0;             ///< after + 1; 0: that was the last one.
  std::vector<std::uint64_t> episodes;  ///< Consumed, in order.
  std::vector<std::uint64_t> sizes;     ///< [episodes] bytes of each one's actions.
  std::vector<std::uint32_t> counts;    ///< [episodes] of each one's advantages.
  Section actions;                      ///< One after the other.
  std::vector<float> advantages;        ///< As they were used, one episode after the other.
  std::string parameters_sha256;        ///< After it.
  std::uint64_t unlearned_from = 1;     ///< Log number of the first episode that no update consumed.
  EMPLACE_FIELDS(after, update, episodes, sizes, counts, actions, advantages, parameters_sha256,
                 unlearned_from)
};

/// learner -> baseline tracker. EpisodeScored again, from this log number on.
struct ScoresRequested {
  static constexpr std::uint16_t kType = number(Type::kScoresRequested);
  std::uint64_t from_seq = 1;
  EMPLACE_FIELDS(from_seq)
};

/// sampler -> recorder and dispatcher: what became of these?
struct EpisodesAsked {
  static constexpr std::uint16_t kType = number(Type::kEpisodesAsked);
  std::uint32_t controller = 0;
  std::uint32_t controllers = 1;
  bool starting = false;  ///< The sampler knows nothing of its own past.
  std::vector<std::uint64_t> episodes;
  EMPLACE_FIELDS(controller, controllers, starting, episodes)
};

/// recorder -> sampler.
struct EpisodesKnown {
  static constexpr std::uint16_t kType = number(Type::kEpisodesKnown);
  bool starting = false;                ///< Echoes EpisodesAsked.
  std::vector<std::uint64_t> ended;     ///< Of those asked: learned from (or, where nobody learns, on disk).
  std::vector<std::uint64_t> recorded;  ///< Of those asked, or all if `starting`: on disk, not learned from.
  std::vector<std::uint64_t> unknown;   ///< Of those asked: not on disk.
  std::vector<std::uint64_t> missing;   ///< If `starting`: below `next_episode` and not on disk.
  std::uint64_t next_episode = 0;       ///< If `starting`: the first of this controller above all on disk.
  std::uint64_t committed = 0;          ///< Episodes of the run on disk.
  EMPLACE_FIELDS(starting, ended, recorded, unknown, missing, next_episode, committed)
};

/// dispatcher -> recorder: how many episodes are on disk?
struct CountRequested {
  static constexpr std::uint16_t kType = number(Type::kCountRequested);
  EMPLACE_NO_FIELDS
};

/// recorder -> dispatcher.
struct EpisodesCounted {
  static constexpr std::uint16_t kType = number(Type::kEpisodesCounted);
  std::uint64_t committed = 0;  ///< Episodes of the run on disk.
  std::uint64_t unlearned = 0;  ///< Episodes on disk that no update on disk has consumed.
  EMPLACE_FIELDS(committed, unlearned)
};

/// sampler -> dispatcher, once it was told to stop and its last episode has ended.
struct SamplerDrained {
  static constexpr std::uint16_t kType = number(Type::kSamplerDrained);
  std::string sampler;  ///< Actor name.
  EMPLACE_FIELDS(sampler)
};

/// dispatcher -> sampler: it has none of these; propose them again.
struct EpisodesWanted {
  static constexpr std::uint16_t kType = number(Type::kEpisodesWanted);
  std::vector<std::uint64_t> episodes;
  EMPLACE_FIELDS(episodes)
};

/// dispatcher -> executor: a heartbeat came from somebody who has not joined; join.
struct ExecutorUnknown {
  static constexpr std::uint16_t kType = number(Type::kExecutorUnknown);
  std::uint64_t epoch = 0;  ///< Of the heartbeat.
  EMPLACE_FIELDS(epoch)
};

}  // namespace emplace::messages

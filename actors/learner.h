#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/task.h"
#include "messages/episode_measured.h"
#include "messages/learning.h"
#include "messages/log.h"
#include "policy/training/trainer.h"
#include "runtime/actor.h"
#include "runtime/context.h"
#include "runtime/core/consumed.h"
#include "runtime/core/fetch.h"
#include "runtime/core/follower.h"

namespace emplace::actors {

struct LearnerOptions {
  std::uint32_t batch_episodes = 1;  ///< Episodes per update.
  policy::TrainerOptions training;
  std::uint64_t max_staleness = 64;  ///< Older episodes are consumed without effect, and counted [versions].
  /// Updates between checkpoints; also one before the first update and one at the end.
  std::uint64_t checkpoint_every = 50;
  std::uint64_t checkpoint_chunk = messages::kCheckpointChunkBytes;  ///< Checkpoint bytes per message.
  std::uint64_t versions = 16;  ///< Number of versions whose parameters are kept for samplers.
  /// Whether an episode has a placement that was not drawn: the start of its steps, or a self-critic's
  /// baseline.
  bool one_undrawn = false;
  bool ordered = false;               ///< Consumes episodes by number rather than by arrival.
  std::vector<std::string> samplers;  ///< Samplers that receive each update.
  Bytes parameters;  ///< Initial parameters of a run without updates; empty: the policy's own.
  Bytes optimizer;   ///< Optimizer state for these parameters; empty: a new one.
  policy::ImitationOptions imitation;      ///< Placement that a new policy imitates before it learns.
  Nanos resend = std::chrono::seconds{1};  ///< Timeout after which unanswered messages are sent again.
};

/// Turns scored episodes into a better policy; the only owner of parameters. After a restart it loads a
/// checkpoint from the recorder, replays the updates since, and continues with the episodes that no update
/// has consumed; its parameters are then bitwise those of the recorded history. An update whose loss,
/// gradient or parameters are not finite is not published and ends the run. Receives EpisodeCommitted
/// (actions), EpisodeScored (advantages), ParametersRequested, CheckpointDelivered, UpdateReplayed,
/// UpdatesRecorded; sends LogRequested, CheckpointRequested, UpdateRequested, ScoresRequested, UpdateApplied
/// (until the recorder has it), ParametersPublished, ParametersDelivered, CheckpointTaken. Thread:
/// constructed anywhere; every handler runs on the owning loop, one of its own.
class Learner final : public runtime::Actor {
 public:
  Learner(LearnerOptions options, PlacerFactory factory);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;
  void on_stop(runtime::Context& context) override;

 private:
  enum class Phase : std::uint8_t {
    kCheckpoint,  ///< Fetches a checkpoint.
    kFirst,       ///< No checkpoint exists: sends the initial one until it is on disk.
    kReplay,      ///< Replays the updates since the checkpoint.
    kLearning,
    kDiverged,  ///< The next update would not be finite: the run ends.
  };
  struct Pending {
    bool has_actions = false, has_score = false;
    Bytes actions;
    messages::EpisodeScored scored;
    std::uint64_t seq = 0;           ///< Number in the recorder's log.
    std::uint64_t placement_id = 0;  ///< Id of the first placement.
    std::uint32_t count = 0;         ///< Number of placements.
    Nanos since{0};
  };
  struct Snapshot {
    messages::SharedBytes floats;
    std::string sha256;
    std::uint64_t checksum = 0;
  };
  /// Checkpoint being sent to the recorder.
  struct OutgoingCheckpoint {
    messages::CheckpointTaken next;  ///< Next chunk.
    std::uint64_t parameters = 0;    ///< Parameter bytes at the front of `bytes`; the optimizer follows.
    messages::SharedBytes bytes;
  };
  void on_timer(runtime::Context& context);
  void fetch_checkpoint(runtime::Context& context);
  void request_update(runtime::Context& context);
  void repeat_request(runtime::Context& context);
  void on_checkpoint(runtime::Context& context, const messages::CheckpointDelivered& delivered,
                     const runtime::Incoming& incoming);
  void start_fresh(runtime::Context& context);
  void send_first(runtime::Context& context);
  void load(runtime::Context& context, const messages::CheckpointDelivered& delivered);
  void on_replayed(runtime::Context& context, const messages::UpdateReplayed& replayed,
                   const runtime::Incoming& incoming);
  void start_learning(runtime::Context& context, std::uint64_t from_seq);
  void follow(runtime::Context& context, const runtime::LogFollower::Ask& asked);
  void on_committed(runtime::Context& context, const messages::EpisodeCommitted& committed,
                    const runtime::Incoming& incoming);
  void on_scored(runtime::Context& context, const messages::EpisodeScored& scored);
  void complete(runtime::Context& context, std::uint64_t episode);
  void learn(runtime::Context& context);
  policy::UpdateMade update(std::span<const policy::ScoredEpisode> batch);
  std::uint64_t updates() const {
    return trainer_->updates();
  }  ///< Number of updates; also the version of the parameters.
  void keep_snapshot();
  void publish(runtime::Context& context);
  bool answer(runtime::Context& context, runtime::ActorId from, const messages::ParametersRequested& request);
  void checkpoint(runtime::Context& context);
  void send_chunks(runtime::Context& context);

  const LearnerOptions options_;
  const PlacerFactory factory_;

  // Owner loop only.
  std::optional<policy::Trainer> trainer_;
  Phase phase_ = Phase::kCheckpoint;
  runtime::Fetch fetch_;            // Checkpoint transfer; the content number is its update.
  Bytes fetched_;                   // Received bytes of the checkpoint.
  Nanos asked_{0};                  // Time of the last update request or initial checkpoint.
  std::uint64_t next_episode_ = 0;  // Only used if ordered.
  std::uint64_t stale_ = 0;
  runtime::Consumed consumed_;  // Placements that this incarnation has learned from.
  runtime::LogFollower log_;
  std::map<std::uint64_t, Pending> pending_;  // Episodes without actions or score, or (ordered) not yet due.
  std::deque<std::uint64_t> ready_;           // Episodes in order of consumption.
  std::deque<messages::UpdateApplied> unrecorded_;
  std::optional<OutgoingCheckpoint> outgoing_;
  Nanos last_sent_{0};                           // Time at which unrecorded_ was last sent.
  std::map<std::uint64_t, Snapshot> snapshots_;  // Newest parameters, by version.
  /// Latest request of each sampler for a version that does not exist yet.
  std::map<runtime::ActorId, messages::ParametersRequested> waiting_;
};

}  // namespace emplace::actors

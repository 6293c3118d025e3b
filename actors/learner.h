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
#include "policy/training/imitation.h"
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
  std::uint64_t max_staleness = 64;  ///< [versions] older episodes are consumed without effect, and counted.
  std::uint64_t checkpoint_every = 50;  ///< Updates; also before the first and at the end.
  std::uint64_t checkpoint_piece = messages::kCheckpointPieceBytes;  ///< [bytes] of one message.
  std::uint64_t versions = 16;        ///< Whose parameters are kept for samplers.
  bool ordered = false;               ///< Consume by episode number, not by arrival.
  std::vector<std::string> samplers;  ///< Told of each update.
  Bytes parameters;  ///< Where a run that has learned nothing starts; empty: the policy's own,
  Bytes optimizer;   ///< and its optimiser; empty: afresh.
  policy::ImitationOptions imitation;      ///< What a policy that starts anew repeats before it learns.
  Nanos resend = std::chrono::seconds{1};  ///< Of what nobody answered.
};

/// Turns scored episodes into a better policy: the only one who owns parameters. Made anew, it asks the
/// recorder for a checkpoint and the updates since, makes these again, and goes on with what no update has
/// consumed; the parameters are then those of the recorded history, bit for bit. An update whose loss,
/// gradient or parameters are not finite is said to nobody and ends the run.
/// Receives EpisodeCommitted (the actions), EpisodeScored (the advantages), ParametersRequested,
/// CheckpointDelivered, UpdateReplayed, UpdatesRecorded; sends LogRequested, CheckpointRequested,
/// UpdateRequested, ScoresRequested, UpdateApplied (until the recorder has it), ParametersPublished,
/// ParametersDelivered, CheckpointTaken. Thread: constructed anywhere; every handler runs on the owning loop,
/// one of its own.
class Learner final : public runtime::Actor {
 public:
  Learner(LearnerOptions options, PlacerFactory factory);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;
  void on_stop(runtime::Context& context) override;

 private:
  enum class Phase : std::uint8_t {
    kCheckpoint,  ///< Asks for one.
    kFirst,       ///< There was none: its own first one is not known to be on disk.
    kReplay,      ///< Makes the updates since again.
    kLearning,
    kDiverged,  ///< The next update would make parameters that are no numbers: the run ends.
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
  /// A checkpoint on its way to the recorder.
  struct Departing {
    messages::CheckpointTaken next;  ///< The next piece.
    std::uint64_t parameters = 0;    ///< [bytes] Of `bytes`; then comes the optimizer.
    messages::SharedBytes bytes;
  };
  void look(runtime::Context& context);
  void fetch_checkpoint(runtime::Context& context);
  void request_update(runtime::Context& context);
  void repeat_request(runtime::Context& context);
  void on_checkpoint(runtime::Context& context, const messages::CheckpointDelivered& delivered,
                     const runtime::Incoming& incoming);
  void start_anew(runtime::Context& context);
  void send_first(runtime::Context& context);
  void load(runtime::Context& context, const messages::CheckpointDelivered& delivered);
  void on_replayed(runtime::Context& context, const messages::UpdateReplayed& replayed,
                   const runtime::Incoming& incoming);
  void begin_learning(runtime::Context& context, std::uint64_t from_seq);
  void follow(runtime::Context& context, const runtime::LogFollower::Ask& asked);
  void on_committed(runtime::Context& context, const messages::EpisodeCommitted& committed,
                    const runtime::Incoming& incoming);
  void on_scored(runtime::Context& context, const messages::EpisodeScored& scored);
  void complete(runtime::Context& context, std::uint64_t episode);
  void learn(runtime::Context& context);
  policy::UpdateMade update(std::span<const policy::ScoredEpisode> batch);
  std::uint64_t updates() const { return trainer_->updates(); }  ///< Also the version of the parameters.
  void keep_snapshot();
  void publish(runtime::Context& context);
  bool answer(runtime::Context& context, runtime::ActorId from, const messages::ParametersRequested& request);
  void checkpoint(runtime::Context& context);
  void send_pieces(runtime::Context& context);

  const LearnerOptions options_;
  const PlacerFactory factory_;

  // Owner loop only.
  std::optional<policy::Trainer> trainer_;
  Phase phase_ = Phase::kCheckpoint;
  runtime::Fetch fetch_;            // Transfer of the checkpoint; its content is the number of its update.
  Bytes fetched_;                   // Bytes of the checkpoint so far.
  Nanos asked_{0};                  // When an update was requested, or the first checkpoint sent, last.
  std::uint64_t next_episode_ = 0;  // Only if ordered.
  std::uint64_t stale_ = 0;
  runtime::Consumed consumed_;  // Placements that this incarnation has learned from.
  runtime::LogFollower log_;
  std::map<std::uint64_t, Pending> pending_;  // Episodes that lack actions or score, or (ordered) their turn.
  std::deque<std::uint64_t> ready_;           // In the order in which they will be consumed.
  std::deque<messages::UpdateApplied> unrecorded_;
  std::optional<Departing> departing_;
  Nanos told_{0};                                // When one of these was sent last.
  std::map<std::uint64_t, Snapshot> snapshots_;  // Parameters by version, the newest few.
  /// For versions that are not there yet, by who asks: the last word of each counts.
  std::map<runtime::ActorId, messages::ParametersRequested> waiting_;
};

}  // namespace emplace::actors

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/task.h"
#include "messages/episode_measured.h"
#include "messages/learning.h"
#include "policy/imitation.h"
#include "policy/optim/adam.h"
#include "runtime/actor.h"
#include "runtime/context.h"

namespace emplace::actors {

struct LearnerOptions {
  std::uint32_t batch_episodes = 1;    ///< Episodes per update.
  std::uint32_t steps_per_update = 1;  ///< Gradient steps on each batch; Spotlight takes 10.
  policy::LearningRate learning_rate;
  policy::AdamOptions adam;
  std::uint64_t max_staleness = 64;  ///< [versions] older episodes are consumed without effect, and counted.
  std::uint64_t checkpoint_every = 50;  ///< Updates; and at the end.
  bool ordered = false;                 ///< Consume by episode number, not by arrival.
  std::vector<std::string> samplers;    ///< Told of each update.
  /// To go on with: parameters and optimiser as a checkpoint had them, and the next episode to consume if
  /// ordered.
  std::uint64_t version = 0, updates = 0;
  Bytes parameters, optimizer;
  policy::ImitationOptions imitation;  ///< What a policy that starts anew repeats before it learns.
};

/// Turns scored episodes into a better policy: the only one who owns parameters.
/// Receives MeasurementCommitted (the actions), EpisodeScored (the advantages), ParametersRequested; sends
/// UpdateApplied, ParametersPublished, ParametersDelivered, CheckpointTaken. Thread: constructed anywhere;
/// every handler runs on the owning loop, one of its own.
class Learner final : public runtime::Actor {
 public:
  Learner(LearnerOptions options, PlacerFactory factory);
  void on_start(runtime::Context& context) override;
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;
  void on_stop(runtime::Context& context) override;

 private:
  struct Pending {
    bool has_actions = false, has_score = false;
    Bytes actions;
    messages::EpisodeScored scored;
  };
  struct Request {
    runtime::ActorId from;
    messages::ParametersRequested what;
  };
  void complete(runtime::Context& context, std::uint64_t episode);
  void learn(runtime::Context& context);
  void publish(runtime::Context& context);
  bool answer(runtime::Context& context, const Request& request);
  void checkpoint(runtime::Context& context);

  const LearnerOptions options_;
  const PlacerFactory factory_;

  // Owner loop only.
  std::unique_ptr<policy::Placer> placer_;
  policy::Adam adam_;
  std::uint64_t version_ = 0, updates_ = 0, next_episode_ = 0, stale_ = 0;
  std::map<std::uint64_t, Pending> pending_;  // Episodes that lack actions or score, or (ordered) their turn.
  std::deque<std::uint64_t> ready_;           // In the order in which they will be consumed.
  std::map<std::uint64_t, messages::SharedBytes> snapshots_;  // Parameters by version, the newest few.
  std::string sha256_;                                        // Of the newest.
  std::vector<Request> waiting_;                              // For versions that are not there yet.
};

}  // namespace emplace::actors

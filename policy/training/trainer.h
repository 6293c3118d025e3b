#pragma once
/// How an update is made: the same for the learner that makes it first and for whoever makes it again.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/file.h"
#include "base/result.h"
#include "base/settings.h"
#include "policy/optim/adam.h"
#include "policy/placer.h"

namespace emplace::policy {

struct TrainerOptions {
  std::uint32_t steps_per_update = 1;  ///< Gradient steps on each batch; Spotlight takes 10.
  LearningRate learning_rate;
  AdamOptions adam;

  void list(Settings& settings) {
    settings.add("steps_per_update", steps_per_update, at_least(1),
                 "Gradient steps on each batch. Spotlight: 10.");
    learning_rate.list(settings);
    adam.list(settings);
  }
};

/// What one update was.
struct UpdateMade {
  LossParts parts;  ///< Of its last step.
  double gradient_norm = 0, learning_rate = 0;
  std::string error;  ///< Why it had no effect; empty: it had.
  std::string
      diverged;  ///< "update 3: the loss is not finite; lower …": to be published or recorded by nobody.
};

/// A policy with its optimiser. Its parameters are a function of those it began with and of the batches, in
/// order. Thread: one.
class Trainer {
 public:
  Trainer(TrainerOptions options, std::unique_ptr<Placer> placer);

  /// Goes on after `update` updates. `optimizer` empty: as at the start. Errors (kInvalid): they do not fit
  /// the policy, or are not those that `sha256` names.
  Result<Unit> load(std::span<const std::byte> parameters, std::span<const std::byte> optimizer,
                    const std::string& sha256, std::uint64_t update);
  /// Begins there, before its first update. Errors (kInvalid): they do not fit the policy.
  Result<Unit> start_from(std::span<const std::byte> parameters, std::span<const std::byte> optimizer);
  /// One more update. A batch that is not this policy's has no effect, but counts, so that nobody waits for
  /// it.
  /// After one that diverged the policy is lost: `diverged` says why.
  UpdateMade update(std::span<const ScoredEpisode> batch);

  std::uint64_t updates() const { return updates_; }  ///< Also the version of the parameters.
  Placer& placer() { return *placer_; }
  const ParameterStore& parameters() const { return placer_->parameters(); }
  Bytes optimizer() const { return adam_.save(); }

 private:
  std::string divergence(std::span<const ScoredEpisode> batch, const UpdateMade& made) const;

  const TrainerOptions options_;
  std::unique_ptr<Placer> placer_;
  Adam adam_;
  std::uint64_t updates_ = 0;
};

}  // namespace emplace::policy

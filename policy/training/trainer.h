#pragma once
/// Performs updates and imitates placements; shared by the learner and by replay, so that both compute the
/// same.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/file.h"
#include "base/result.h"
#include "base/settings.h"
#include "placement/placement.h"
#include "policy/optim/adam.h"
#include "policy/placer.h"

namespace emplace::policy {

enum class Optimizer : std::uint8_t { kAdam, kSgd };
constexpr auto enum_words(Optimizer) {
  return EnumWords{"optimizer",
                   std::array{EnumWord{Optimizer::kAdam, "adam"}, EnumWord{Optimizer::kSgd, "sgd"}}};
}

struct TrainerOptions {
  /// Gradient steps on each batch; Spotlight takes 10.   Paper: Spotlight 2018, algorithm 1  [SPO-ALG]
  std::uint32_t steps_per_update = 1;
  Optimizer optimizer = Optimizer::kAdam;
  LearningRate learning_rate;
  AdamOptions adam;

  void list(Settings& settings) {
    settings.add("steps_per_update", steps_per_update, at_least(1),
                 "Number of gradient steps per batch. Spotlight: 10.");
    settings.add(
        "optimizer", optimizer,
        "How a gradient changes the parameters: Adam, or plain stochastic gradient steps (sgd). Spotlight: "
        "sgd.");
    learning_rate.list(settings);
    adam.list(settings);
  }
};

/// Result of one update.
struct UpdateMade {
  LossParts parts;  ///< Loss components of the last gradient step.
  double gradient_norm = 0, learning_rate = 0;
  std::string error;     ///< Reason why the update had no effect; empty if it had one.
  std::string diverged;  ///< Why the update diverged, such as "update 3: the loss is not finite; lower …";
                         ///< empty if it did not. A diverged update must not be published or recorded.
};

/// A policy with its optimizer. Its parameters are a function of the initial ones and of the sequence of
/// batches. Thread: one.
class Trainer {
 public:
  Trainer(TrainerOptions options, std::unique_ptr<Placer> placer);

  /// Resumes after `update` updates. An empty `optimizer` leaves the initial state. Errors (kInvalid): the
  /// data do not fit the policy, or `sha256` does not match.
  Result<Unit> load(std::span<const std::byte> parameters, std::span<const std::byte> optimizer,
                    const std::string& sha256, std::uint64_t update);
  /// Sets the initial parameters before the first update. Errors (kInvalid): the data do not fit the policy.
  Result<Unit> start_from(std::span<const std::byte> parameters, std::span<const std::byte> optimizer);
  /// Performs one update. A batch with actions of another policy has no effect, but is counted, so that no
  /// actor waits for that update. After divergence the policy is unusable; `diverged` holds the reason.
  UpdateMade update(std::span<const ScoredEpisode> batch);

  /// Number of updates done; also the version of the parameters.
  std::uint64_t updates() const { return updates_; }
  Placer& placer() { return *placer_; }
  const ParameterStore& parameters() const { return placer_->parameters(); }
  /// The optimizer's state; plain gradient steps have none, which is that of an Adam before its first step.
  Bytes optimizer() const { return adam_.save(); }

 private:
  std::string divergence(std::span<const ScoredEpisode> batch, const UpdateMade& made) const;

  const TrainerOptions options_;
  std::unique_ptr<Placer> placer_;
  Adam adam_;
  std::uint64_t updates_ = 0;
};

/// Warm start: a policy first learns to repeat a given placement, the best of a heuristic, and explores from
/// there.
struct ImitationOptions {
  Placement placement;        ///< [ops] Placement of the policy's first graph; empty: no imitation.
  double probability = 0.85;  ///< Target probability, as a geometric mean over choices.
  float learning_rate = 0.01f;
  std::uint64_t max_steps = 300;
};

/// Ascends log p(placement) by Adam until the target probability or the maximum number of steps is reached.
/// Returns the probability per choice. Errors: kInvalid if the policy cannot imitate this placement.
Result<double> imitate(Placer& placer, const ImitationOptions& options);

}  // namespace emplace::policy

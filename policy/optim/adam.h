#pragma once
/// Gradient steps with clipping by the global norm: Adam and plain ones.
///   Paper: Kingma & Ba 2015, algorithm 1; Hierarchical 2018, section 3  [HIE-ADAM]

#include <cstdint>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/settings.h"
#include "policy/parameters.h"

namespace emplace::policy {

struct AdamOptions {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float clip_norm = 1.0f;  ///< Maximum global norm of a gradient; 0 disables clipping.

  void list(Settings& settings) {
    settings.add("clip_norm", clip_norm, "Maximum global norm of a gradient; 0 disables clipping. Paper: 1.");
  }
};

/// Learning rate as a function of the number of updates done.
struct LearningRate {
  float start = 0.1f;
  float decay = 1.0f;  ///< Factor applied every `decay_every` updates, starting at `decay_from`.
  std::uint64_t decay_every = 50;
  std::uint64_t decay_from = 400;
  /// Duration of a linear decay from `start` to `end` [updates]; 0: step decay.
  std::uint64_t linear_over = 0;
  float end = 0;
  float at(std::uint64_t update) const;

  void list(Settings& settings) {
    settings.add("learning_rate", start, at_least(0), "Learning rate at the first update. Paper: 0.1.");
    settings.add("learning_rate_decay", decay,
                 "Factor on the learning rate at each decay step. Authors' code: 0.95.");
    settings.add("decay_every", decay_every, at_least(1), "Number of updates between two decay steps.");
    settings.add("decay_from", decay_from, "First update with a decayed learning rate.");
    settings.add("learning_rate_end", end, "Final learning rate of the linear decay.");
    settings.add("linear_over", linear_over,
                 "Updates over which the learning rate decays linearly to learning_rate_end; 0: step decay.");
  }
};

/// A plain descent step, parameter -= learning_rate · gradient, of a gradient cut to the global norm
/// `clip_norm` (0: not cut). Descending a loss is ascending its negative. Returns the norm before the cut; if
/// it is not finite, nothing changes.   Paper: Spotlight 2018, section 4  [SPO-SGA]
float sgd_step(ParameterStore& store, float learning_rate, float clip_norm);

/// The state can be saved and loaded, so that a resumed run is bit-identical. Thread: one.
class Adam {
 public:
  explicit Adam(AdamOptions options = {}) : options_{options} {}
  /// One descent step along the store's gradients. Returns their global norm before clipping. If the norm is
  /// not finite, nothing changes.
  float step(ParameterStore& store, float learning_rate);
  std::uint64_t updates() const { return updates_; }
  Bytes save() const;
  /// Errors: kInvalid if the size of the state is wrong.
  Result<Unit> load(std::span<const std::byte> bytes, std::size_t parameters);

 private:
  AdamOptions options_;
  std::uint64_t updates_ = 0;
  std::vector<float> mean_, square_;
};

}  // namespace emplace::policy

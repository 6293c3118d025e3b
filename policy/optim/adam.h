#pragma once
/// Adam with clipping by the global norm.   Paper: Kingma & Ba 2015, algorithm 1; Hierarchical 2018,
/// section 3.1  [HIE-ADAM]

#include <cstdint>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/settings.h"
#include "policy/parameters.h"

namespace emplace::policy {

struct AdamOptions {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float clip_norm = 1.0f;  ///< The gradient is scaled down to this norm; 0: never.

  void list(Settings& settings) {
    settings.add("clip_norm", clip_norm,
                 "Global norm that a gradient is scaled down to; 0: never. Paper: 1.");
  }
};

/// How the learning rate goes with the number of updates done.
struct LearningRate {
  float start = 0.1f;
  float decay = 1.0f;  ///< Factor every `decay_every` updates from `decay_from` on.
  std::uint64_t decay_every = 50;
  std::uint64_t decay_from = 400;
  std::uint64_t linear_over = 0;  ///< > 0: linearly from `start` to `end` over so many updates instead.
  float end = 0;
  float at(std::uint64_t update) const;

  void list(Settings& settings) {
    settings.add("learning_rate", start, at_least(0),
                 "Learning rate of Adam at the first update. Paper: 0.1.");
    settings.add("learning_rate_decay", decay,
                 "Factor on the learning rate at each step of its decay. Authors' code: 0.95.");
    settings.add("decay_every", decay_every, at_least(1), "Updates between two steps of the decay.");
    settings.add("decay_from", decay_from, "First update whose learning rate has decayed.");
    settings.add("learning_rate_end", end, "Final learning rate of the linear decay.");
    settings.add(
        "linear_over", linear_over,
        "Updates over which the learning rate goes linearly to learning_rate_end; 0: it decays in steps.");
  }
};

/// Thread: one. Its state saves and loads, so that a run resumes to the same bits.
class Adam {
 public:
  explicit Adam(AdamOptions options = {}) : options_{options} {}
  /// One descent step along the store's gradients. Returns their global norm before clipping. A gradient that
  /// is not finite changes nothing and is returned as it is.
  float step(ParameterStore& store, float learning_rate);
  std::uint64_t updates() const { return updates_; }
  Bytes save() const;
  /// Errors: kInvalid if the state is of another size.
  Result<Unit> load(std::span<const std::byte> bytes, std::size_t parameters);

 private:
  AdamOptions options_;
  std::uint64_t updates_ = 0;
  std::vector<float> mean_, square_;
};

}  // namespace emplace::policy

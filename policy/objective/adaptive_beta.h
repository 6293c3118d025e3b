#pragma once
/// The weight of the KL penalty, which may follow a target.

#include <cstdint>

#include "policy/objective/objective.h"
#include "policy/parameters.h"

namespace emplace::policy {

/// β after an update whose mean KL per choice was `kl`.
float adapted_beta(const ObjectiveOptions& options, float beta, float kl);

/// β as the parameter "objective.beta" [1, 1], which no gradient moves: what is saved, hashed, resumed and
/// replayed with the parameters goes on to the same bits.   [SPO-BETA]
/// Thread: const members from any thread while nobody writes the store.
class AdaptiveBeta {
 public:
  /// β as `options` has it, for ever: nothing is added to a store.
  explicit AdaptiveBeta(const ObjectiveOptions& options) : options_{options} {}
  AdaptiveBeta(ParameterStore& store, const ObjectiveOptions& options);

  /// β of now. @pre `store` is the one that it was added to, if any, or a copy; so in follow().
  float value(const ParameterStore& store) const { return kept_ ? store.value(id_)(0, 0) : options_.beta; }
  /// After an update whose mean KL per choice was `divergence`.
  void follow(ParameterStore& store, double divergence) const;

 private:
  ObjectiveOptions options_;
  bool kept_ = false;
  ParameterId id_{};  // If kept.
};

}  // namespace emplace::policy

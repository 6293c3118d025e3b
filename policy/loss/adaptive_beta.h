#pragma once
/// Weight of the KL penalty, optionally adapted to a target.

#include <cstdint>

#include "policy/loss/loss.h"
#include "policy/parameters.h"

namespace emplace::policy {

/// Returns β after an update whose mean KL per choice was `kl`.
float adapted_beta(const LossOptions& options, float beta, float kl);

/// Holds β as the parameter "objective.beta" [1, 1], which no gradient changes. As a parameter it is saved,
/// hashed, resumed and replayed bit-identically.   [SPO-BETA]
/// Thread: const members from any thread while no thread writes the store.
class AdaptiveBeta {
 public:
  /// Constant β from `options`; adds no parameter.
  explicit AdaptiveBeta(const LossOptions& options) : options_{options} {}
  AdaptiveBeta(ParameterStore& store, const LossOptions& options);

  /// Current β. @pre `store` is the one passed to the constructor, if any, or a copy; also for follow().
  float value(const ParameterStore& store) const { return kept_ ? store.value(id_)(0, 0) : options_.beta; }
  /// Adapts β after an update with a mean KL of `divergence` per choice.
  void follow(ParameterStore& store, double divergence) const;

 private:
  LossOptions options_;
  bool kept_ = false;
  ParameterId id_{};  // Valid if kept_.
};

}  // namespace emplace::policy

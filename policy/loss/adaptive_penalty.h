#pragma once
/// Weight of the memory penalty, optionally adapted to a target.

#include "policy/loss/reward.h"

namespace emplace::policy {

/// Lagrange multiplier λ of the constraint that placements fit, by dual ascent on its logarithm: after each
/// placement  log λ += kRate · (target − fits),  λ clamped to [1/kMax, kMax]. At equilibrium the share of
/// placements that fit equals the target. Too small a penalty leaves the policy above the caps; too large a
/// penalty drives it away from all placements near them. A value; a function of the learned outcomes. Thread:
/// one.   [EMP-LAMBDA]
class AdaptivePenalty {
 public:
  static constexpr double kRate = 0.01, kMax = 256;

  /// `target`: share of placements that should fit, in [0, 1); 0 keeps λ at 1.
  explicit AdaptivePenalty(double target) : target_{target} {}
  double factor() const { return factor_; }
  /// Returns the options with their penalties multiplied by λ.
  RewardOptions applied(RewardOptions options) const;
  /// Updates λ after a placement; `fits` is its outcome.
  void learn(bool fits);

 private:
  double target_;
  double factor_ = 1;
};

}  // namespace emplace::policy

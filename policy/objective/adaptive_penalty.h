#pragma once
/// The weight of the memory penalty, which may follow a target.

#include "policy/objective/reward.h"

namespace emplace::policy {

/// A Lagrange multiplier λ of the constraint that placements fit, by dual ascent on its logarithm: after each
/// placement  log λ += kRate · (target − fits),  λ within [1/kMost, kMost]. At rest, the share of placements
/// that fit is the target: with less penalty a policy stays above the caps, with more it flees from every
/// placement near them. A value; a function of what it was told. Thread: one.   [EMP-LAMBDA]
class AdaptivePenalty {
 public:
  static constexpr double kRate = 0.01, kMost = 256;

  /// `target`: share of placements that should fit, in [0, 1); 0: λ stays 1.
  explicit AdaptivePenalty(double target) : target_{target} {}
  double factor() const { return factor_; }
  /// The options with their penalty times λ.
  RewardOptions applied(RewardOptions options) const;
  /// Of the next placement: whether it fits.
  void learn(bool fits);

 private:
  double target_;
  double factor_ = 1;
};

}  // namespace emplace::policy

#include "policy/loss/adaptive_penalty.h"

#include <algorithm>
#include <cmath>

namespace emplace::policy {

RewardOptions AdaptivePenalty::applied(RewardOptions options) const {
  options.penalty_base *= factor_;
  options.penalty_per_gb *= factor_;
  return options;
}

void AdaptivePenalty::learn(bool fits) {
  if (target_ <= 0) return;
  factor_ = std::clamp(factor_ * std::exp(kRate * (target_ - (fits ? 1 : 0))), 1 / kMax, kMax);
}

}  // namespace emplace::policy

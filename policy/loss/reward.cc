#include "policy/loss/reward.h"

#include <algorithm>
#include <cmath>

#include "placement/energy.h"

namespace emplace::policy {

double transformed(Transform transform, double step_time_s) {
  return transform == Transform::kIdentity ? step_time_s
         : transform == Transform::kSqrt   ? std::sqrt(step_time_s)
                                           : std::log(step_time_s);
}

std::int64_t counted_excess(Excess excess, std::int64_t over, std::span<const std::int64_t> peak_bytes,
                            std::span<const std::int64_t> memory_bytes) {
  if (excess == Excess::kSum) return over;
  std::int64_t largest = 0;
  for (std::size_t d = 0; d < std::min(peak_bytes.size(), memory_bytes.size()); ++d)
    largest = std::max(largest, peak_bytes[d] - memory_bytes[d]);
  return largest > 0 ? std::min(largest, over) : over;
}

void AdaptivePenalty::learn(bool fits) {
  if (target_ <= 0) return;
  factor_ = std::clamp(factor_ * std::exp(kRate * (target_ - (fits ? 1 : 0))), 1 / kMax, kMax);
}

void MemoryFloor::learn(bool fits, double cost) {
  double& mark = fits ? least_that_fits_ : most_above_;
  mark = fits ? std::min(mark, cost) : std::max(mark, cost);
}

double placement_cost(const RewardOptions& options, bool valid, double step_time_s, std::int64_t bytes_over,
                      const MemoryPrice& price) {
  if (valid) return transformed(options.transform, step_time_s);
  // Without a step time the placement did not run; nothing can be graded.
  if (!options.graded_memory || !(step_time_s > 0)) return options.failing_signal;
  const double penalty =
      options.penalty == MemoryPenalty::kShare
          ? price.factor * memory_penalty(std::max<std::int64_t>(1, bytes_over), price.smallest_memory)
          : options.penalty_base * price.factor + (options.penalty_per_gb + price.more_per_gb) *
                                                      price.factor * static_cast<double>(bytes_over) * 1e-9;
  return std::min(std::max(transformed(options.transform, step_time_s), price.floor) + penalty,
                  options.failing_signal);
}

}  // namespace emplace::policy

#pragma once
/// Lower bound on the cost of a placement above the memory caps, from earlier measurements.

#include <algorithm>

#include "policy/loss/reward.h"

namespace emplace::policy {

/// The floor is the lowest cost of all placements that fitted; until one fits, the highest cost of those that
/// did not. No placement above the caps is therefore rated better than the best one that fits: only its
/// distance from fitting counts, not its speed. Inspired by Deb 2000 ("An efficient constraint handling
/// method for genetic algorithms", Eq. 4), which uses the worst feasible one.   [EMP-FLOOR]
///
/// A value; independent of the order of learn() calls. Thread: one.
class MemoryFloor {
 public:
  /// Updates the floor with a placement that has a step time. `cost` is transform(step time).
  void learn(bool fits, double cost) {
    double& mark = fits ? least_that_fits_ : most_above_;
    mark = fits ? std::min(mark, cost) : std::max(mark, cost);
  }
  double cost() const { return least_that_fits_ < -kNoFloor ? least_that_fits_ : most_above_; }

 private:
  double least_that_fits_ = -kNoFloor, most_above_ = kNoFloor;
};

}  // namespace emplace::policy

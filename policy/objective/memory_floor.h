#pragma once
/// What a placement above the memory caps costs at least, from those that were measured before.

#include <algorithm>

#include "policy/objective/reward.h"

namespace emplace::policy {

/// The least cost of all placements that fitted; until one does, the largest of those that did not. So
/// nothing above the caps is worth more than the best that fits: that it would have been faster counts for
/// nothing, only how far it is from fitting. In the spirit of Deb 2000 ("An efficient constraint handling
/// method for genetic algorithms", Eq. 4), who takes the worst that fits.   [EMP-FLOOR]
///
/// A value; the order of what it was told does not matter. Thread: one.
class MemoryFloor {
 public:
  /// Of the next placement that ran, or would have: whether it fits and transform(step time).
  void learn(bool fits, double cost) {
    double& mark = fits ? least_that_fits_ : most_above_;
    mark = fits ? std::min(mark, cost) : std::max(mark, cost);
  }
  double cost() const { return least_that_fits_ < -kNoFloor ? least_that_fits_ : most_above_; }

 private:
  double least_that_fits_ = -kNoFloor, most_above_ = kNoFloor;
};

}  // namespace emplace::policy

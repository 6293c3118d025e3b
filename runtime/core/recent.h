#pragma once
/// Quantiles of recent durations.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/clock.h"

namespace emplace::runtime {

/// The last 512 durations. Pure; one thread.
class RecentDurations {
 public:
  void add(Nanos took) {
    last_[added_ % last_.size()] = took;
    ++added_;
  }
  std::size_t known() const { return std::min(added_, last_.size()); }
  /// The `share` quantile: the ⌈share · known⌉-th smallest. @pre known() > 0.
  Nanos at(double share) const {
    std::vector<Nanos> sorted(last_.begin(), last_.begin() + static_cast<std::ptrdiff_t>(known()));
    const auto rank = static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(sorted.size())));
    const auto nth = sorted.begin() + std::clamp<std::ptrdiff_t>(rank - 1, 0, std::ssize(sorted) - 1);
    std::nth_element(sorted.begin(), nth, sorted.end());
    return *nth;
  }

 private:
  std::array<Nanos, 512> last_{};
  std::size_t added_ = 0;
};

}  // namespace emplace::runtime

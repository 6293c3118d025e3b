#pragma once
/// Detects costs far above the usual ones: disturbed measurements.

#include <cstddef>
#include <deque>

namespace emplace::policy {

/// R is an outlier if  R > median + k · MAD,  where MAD is the median of |R_i − median| over the last 100
/// costs. No cost is an outlier while fewer than 20 are known, nor if MAD is 0: then most costs are equal,
/// and any other value would be an outlier. A value; a pure function of the learned costs. Thread: one.
class OutlierFilter {
 public:
  /// `factor`: k; 0 disables the filter.
  explicit OutlierFilter(double factor) : factor_{factor} {}
  bool is_outlier(double cost) const;
  /// Call it for outliers too, so that the median follows a machine that has become slower.
  void learn(double cost);

 private:
  double factor_;
  std::deque<double> last_;
};

}  // namespace emplace::policy

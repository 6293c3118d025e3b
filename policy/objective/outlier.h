#pragma once
/// Costs far above what is usual: a measurement that something else disturbed.

#include <cstddef>
#include <deque>

namespace emplace::policy {

/// R is an outlier if  R > median + k · MAD,  MAD = the median of |R_i − median|  over the last 100 costs.
/// Nothing is one before 20 are known, nor where MAD is 0: then most costs are equal, and any other would be
/// new. A value; a pure function of the costs it was told. Thread: one.
class OutlierFilter {
 public:
  /// `factor`: k; 0: nothing is an outlier.
  explicit OutlierFilter(double factor) : factor_{factor} {}
  bool is_outlier(double cost) const;
  /// Outliers too: where a machine has become slower, their median follows.
  void learn(double cost);

 private:
  double factor_;
  std::deque<double> last_;
};

}  // namespace emplace::policy

#pragma once
/// How well predicted times agree with measured ones.

#include <cstddef>
#include <span>

namespace emplace::launcher {

struct Agreement {
  std::size_t count = 0;
  double mape = 0;          ///< Mean of |predicted - measured| / measured.
  double spearman = 0;      ///< Correlation of ranks; equal values share their mean rank.
  double kendall = 0;       ///< tau-b over all pairs.
  double top5_overlap = 0;  ///< Share of the five fastest measured that are among the five fastest predicted.
};

/// NaN correlations where one side does not vary. @pre equal lengths; measured > 0
Agreement agreement(std::span<const double> predicted, std::span<const double> measured);

}  // namespace emplace::launcher

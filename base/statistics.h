#pragma once
/// Normalised shares, and the agreement of two measurements of the same placements.

#include <cstdint>
#include <span>
#include <vector>

namespace emplace {

/// Errors are |again / logged - 1|. Values are NaN if there are too few pairs or all are tied.
struct Agreement {
  std::uint64_t count = 0;
  double spearman = 0;  ///< Pearson's correlation of the ranks; ties share their mean rank.
  double kendall = 0;   ///< Tau-b: (concordant - discordant) / sqrt(pairs untied in a * pairs untied in b).
  double error_mean = 0, error_median = 0, error_p95 = 0, error_max = 0;
  /// Count of the five fastest by `logged` that are among the five fastest by `again`.
  std::uint64_t top5_overlap = 0;
};

/// Compares pairs of positive times. O(n log n). @pre both have the same size.
Agreement agreement(std::span<const double> logged, std::span<const double> again);

/// Divides the values by their sum; zeros stay zeros. @pre no value is negative.
std::vector<double> normalised(std::vector<double> values);

}  // namespace emplace

#pragma once
/// Shares, and how well two measurements of the same placements go together.

#include <cstdint>
#include <span>
#include <vector>

namespace emplace {

/// Errors are |again / logged - 1|. NaN where there are too few pairs, or nothing to rank.
struct Agreement {
  std::uint64_t count = 0;
  double spearman = 0;  ///< Pearson's correlation of the ranks, ties sharing their mean rank.
  double kendall = 0;   ///< Tau-b: (concordant - discordant) / sqrt of the pairs untied in each.
  double error_mean = 0, error_median = 0, error_p95 = 0, error_max = 0;
  std::uint64_t top5_overlap = 0;  ///< Of the five fastest then, how many are among the five fastest again.
};

/// Pairs of positive times. O(n log n). @pre as many of one as of the other.
Agreement agreement(std::span<const double> logged, std::span<const double> again);

/// Values over their sum; zeros stay zeros. @pre none is negative.
std::vector<double> normalised(std::vector<double> values);

}  // namespace emplace

#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace emplace {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Positions sorted by value, then by position.
std::vector<std::size_t> by_value(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return values[a] < values[b]; });
  return order;
}

std::vector<double> ranks(std::span<const double> values) {
  const auto order = by_value(values);
  std::vector<double> rank(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) rank[order[i]] = 0.5 * static_cast<double>(begin + end - 1);
    begin = end;
  }
  return rank;
}

double pearson(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : kNone;
}

/// Counts pairs (i < j) with values[i] > values[j]; sorts the values.
std::uint64_t inversions(std::vector<double>& values, std::vector<double>& spare, std::size_t begin,
                         std::size_t end) {
  if (end - begin < 2) return 0;
  const std::size_t middle = begin + (end - begin) / 2;
  std::uint64_t count = inversions(values, spare, begin, middle) + inversions(values, spare, middle, end);
  std::size_t left = begin, right = middle;
  for (std::size_t at = begin; at < end; ++at) {
    if (right == end || (left < middle && values[left] <= values[right])) {
      spare[at] = values[left++];
    } else {
      count += middle - left;
      spare[at] = values[right++];
    }
  }
  std::copy(spare.begin() + static_cast<std::ptrdiff_t>(begin),
            spare.begin() + static_cast<std::ptrdiff_t>(end),
            values.begin() + static_cast<std::ptrdiff_t>(begin));
  return count;
}

/// Counts pairs within runs of equal neighbours.
template <class Same>
double tied_pairs(std::size_t size, Same same) {
  double pairs = 0;
  for (std::size_t begin = 0, end = 0; begin < size; begin = end) {
    for (end = begin + 1; end < size && same(begin, end); ++end) {
    }
    pairs += 0.5 * static_cast<double>(end - begin) * static_cast<double>(end - begin - 1);
  }
  return pairs;
}

/// Knight's algorithm: after sorting by a, then b, the discordant pairs are the inversions of b.
double kendall(std::span<const double> a, std::span<const double> b) {
  std::vector<std::size_t> order(a.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](auto i, auto j) { return a[i] != a[j] ? a[i] < a[j] : b[i] < b[j]; });
  const std::size_t n = a.size();
  const double tied_a = tied_pairs(n, [&](auto i, auto j) { return a[order[i]] == a[order[j]]; });
  const double tied_both =
      tied_pairs(n, [&](auto i, auto j) { return a[order[i]] == a[order[j]] && b[order[i]] == b[order[j]]; });
  std::vector<double> sorted(n), spare(n);
  for (std::size_t i = 0; i < n; ++i) sorted[i] = b[order[i]];
  const auto discordant = static_cast<double>(inversions(sorted, spare, 0, n));
  const double tied_b = tied_pairs(n, [&](auto i, auto j) { return sorted[i] == sorted[j]; });
  const double all = 0.5 * static_cast<double>(n) * static_cast<double>(n - 1);
  const double untied = std::sqrt((all - tied_a) * (all - tied_b));
  return untied > 0 ? (all - tied_a - tied_b + tied_both - 2 * discordant) / untied : kNone;
}

}  // namespace

Agreement agreement(std::span<const double> logged, std::span<const double> again) {
  Agreement found;
  found.count = logged.size();
  found.spearman = found.kendall = found.error_mean = found.error_median = found.error_p95 = found.error_max =
      kNone;
  if (logged.empty()) return found;
  std::vector<double> errors;
  for (std::size_t i = 0; i < logged.size(); ++i) errors.push_back(std::abs(again[i] / logged[i] - 1));
  std::sort(errors.begin(), errors.end());
  const auto quantile = [&](double q) {
    return errors[static_cast<std::size_t>(std::ceil(q * static_cast<double>(errors.size()))) - 1];
  };
  found.error_mean = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  found.error_median = quantile(0.5);
  found.error_p95 = quantile(0.95);
  found.error_max = errors.back();
  const auto then = by_value(logged), now = by_value(again);
  const std::size_t top = std::min<std::size_t>(5, logged.size());
  for (std::size_t i = 0; i < top; ++i)
    found.top5_overlap += static_cast<std::uint64_t>(
        std::count(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(top), then[i]));
  if (logged.size() < 2) return found;
  found.spearman = pearson(ranks(logged), ranks(again));
  found.kendall = kendall(logged, again);
  return found;
}

std::vector<double> normalised(std::vector<double> values) {
  const double total = std::max(1e-300, std::accumulate(values.begin(), values.end(), 0.0));
  for (double& value : values) value /= total;
  return values;
}

}  // namespace emplace

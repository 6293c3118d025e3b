#include "launcher/calibration/agreement.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace emplace::launcher {
namespace {

std::vector<std::size_t> by_value(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return values[i]; });
  return order;
}

std::vector<double> ranks(std::span<const double> values) {
  const auto order = by_value(values);
  std::vector<double> out(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (std::size_t i = first; i < end; ++i) out[order[i]] = static_cast<double>(first + end - 1) / 2;
    first = end;
  }
  return out;
}

double correlation(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double both = 0, only_a = 0, only_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean_a) * (b[i] - mean_b);
    only_a += (a[i] - mean_a) * (a[i] - mean_a);
    only_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return both / std::sqrt(only_a * only_b);
}

double kendall_tau_b(std::span<const double> a, std::span<const double> b) {
  double agreeing = 0, ties_a = 0, ties_b = 0, pairs = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = i + 1; k < a.size(); ++k) {
      const double x = a[i] - a[k], y = b[i] - b[k];
      ++pairs;
      ties_a += x == 0;
      ties_b += y == 0;
      if (x != 0 && y != 0) agreeing += (x > 0) == (y > 0) ? 1 : -1;
    }
  }
  return agreeing / std::sqrt((pairs - ties_a) * (pairs - ties_b));
}

}  // namespace

Agreement agreement(std::span<const double> predicted, std::span<const double> measured) {
  EMPLACE_CHECK(predicted.size() == measured.size(), "each prediction has its measurement");
  Agreement out;
  out.count = measured.size();
  if (measured.empty()) return out;
  for (std::size_t i = 0; i < measured.size(); ++i)
    out.mape += std::abs(predicted[i] - measured[i]) / measured[i] / static_cast<double>(measured.size());
  out.spearman = correlation(ranks(predicted), ranks(measured));
  out.kendall = kendall_tau_b(predicted, measured);
  const std::size_t top = std::min<std::size_t>(5, measured.size());
  const auto fast = by_value(measured), thought = by_value(predicted);
  std::size_t common = 0;
  for (std::size_t i = 0; i < top; ++i)
    common += std::find(thought.begin(), thought.begin() + static_cast<std::ptrdiff_t>(top), fast[i]) !=
              thought.begin() + static_cast<std::ptrdiff_t>(top);
  out.top5_overlap = static_cast<double>(common) / static_cast<double>(top);
  return out;
}

}  // namespace emplace::launcher

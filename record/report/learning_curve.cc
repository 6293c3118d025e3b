#include "record/report/learning_curve.h"

#include <algorithm>
#include <cmath>

namespace emplace::record {
namespace {

constexpr std::size_t kFewest = 40;         // Minimum number of points, if there are this many measurements.
constexpr std::size_t kPerPercentile = 10;  // Minimum measurements per stretch, if enough points remain.

/// Nearest-rank percentile. @pre sorted, not empty.
double percentile(const std::vector<double>& sorted, double percent) {
  const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace

std::vector<CurvePoint> learning_curve(std::span<const CurveSample> samples, std::size_t max_points) {
  const std::size_t n = samples.size();
  const std::size_t wanted = std::min(max_points, std::max(n / kPerPercentile, std::min(n, kFewest)));
  const std::size_t length = wanted == 0 ? 1 : (n + wanted - 1) / wanted;
  std::vector<CurvePoint> points;
  std::vector<double> times;
  double best_s = 0;
  for (std::size_t begin = 0; begin < n; begin += length) {
    const std::span<const CurveSample> stretch = samples.subspan(begin, std::min(length, n - begin));
    times.clear();
    for (const CurveSample& sample : stretch)
      if (sample.valid) times.push_back(sample.step_time_s);
    std::sort(times.begin(), times.end());
    CurvePoint& point = points.emplace_back();
    point.measurements = begin + stretch.size();
    point.count = stretch.size();
    point.valid = times.size();
    point.wall_s = stretch.back().wall_s;
    if (!times.empty()) {
      for (std::size_t p = 0; p < kCurvePercentiles.size(); ++p)
        point.step_time_s[p] = percentile(times, kCurvePercentiles[p]);
      best_s = best_s == 0 ? times.front() : std::min(best_s, times.front());
    }
    point.best_s = best_s;
  }
  return points;
}

}  // namespace emplace::record

#include "executor/timing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace emplace {
namespace {

constexpr double kSteady = 0.05;  // Maximum ratio of deviation and median.

}  // namespace

double median(std::vector<double> values) {
  EMPLACE_CHECK(!values.empty(), "median of no values");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double median_deviation(std::span<const double> values) {
  const double centre = median({values.begin(), values.end()});
  std::vector<double> away;
  for (const double value : values) away.push_back(std::abs(value - centre));
  return median(std::move(away));
}

Result<StepTiming> time_steps(const TimingOptions& options, const std::function<Result<double>()>& step) {
  EMPLACE_CHECK(options.samples > 0, "at least one sample expected");
  for (std::uint32_t i = 0; i < options.warmups; ++i) EMPLACE_TRY(step());
  StepTiming timing;
  const auto unsteady = [&] {
    return median_deviation(timing.samples_s) > kSteady * median(timing.samples_s);
  };
  while (timing.samples_s.size() < options.samples ||
         (timing.samples_s.size() < options.most_samples && unsteady())) {
    EMPLACE_TRY_ASSIGN(const auto seconds, step());
    timing.samples_s.push_back(seconds);
  }
  timing.step_time_s = options.statistic == TimingOptions::Statistic::kMedian
                           ? median(timing.samples_s)
                           : std::accumulate(timing.samples_s.begin(), timing.samples_s.end(), 0.0) /
                                 static_cast<double>(timing.samples_s.size());
  timing.deviation_s = median_deviation(timing.samples_s);
  timing.unsteady = unsteady();
  return timing;
}

}  // namespace emplace

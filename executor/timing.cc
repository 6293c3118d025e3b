#include "executor/timing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace emplace {
namespace {

constexpr double kSteady = 0.05;  // Maximum ratio of deviation and median.
constexpr double kNever = std::numeric_limits<double>::infinity();

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

LinkCost fit_link(std::span<const double> bytes, std::span<const double> seconds, double least_slope) {
  std::vector<double> slopes, rests;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (std::size_t k = i + 1; k < bytes.size(); ++k)
      if (bytes[i] != bytes[k]) slopes.push_back((seconds[k] - seconds[i]) / (bytes[k] - bytes[i]));
  const double slope = std::max(median(std::move(slopes)), least_slope);
  for (std::size_t i = 0; i < bytes.size(); ++i) rests.push_back(seconds[i] - slope * bytes[i]);
  return {.latency_s = std::max(0.0, median(std::move(rests))), .bytes_per_s = 1 / slope};
}

Result<StepTiming> time_steps(const TimingOptions& options, const std::function<Result<double>()>& step,
                              double best_s) {
  EMPLACE_CHECK(options.samples > 0, "at least one sample expected");
  const double limit_s = options.stop_ratio > 0 ? options.stop_ratio * best_s : kNever;
  StepTiming timing;
  double first_s = 0;
  std::uint32_t steps = 0;
  // Returns the time of the next step; stops if it is the second and both are slow.
  const auto next = [&]() -> Result<double> {
    EMPLACE_TRY_ASSIGN(const auto seconds, step());
    if (++steps == 1) first_s = seconds;
    timing.stopped = steps == 2 && std::min(first_s, seconds) >= limit_s;
    if (timing.stopped) timing.samples_s = {seconds};
    return seconds;
  };
  for (std::uint32_t i = 0; i < options.warmups && !timing.stopped; ++i) EMPLACE_TRY(next());
  const auto unsteady = [&] {
    return median_deviation(timing.samples_s) > kSteady * median(timing.samples_s);
  };
  while (!timing.stopped && (timing.samples_s.size() < options.samples ||
                             (timing.samples_s.size() < options.most_samples && unsteady()))) {
    EMPLACE_TRY_ASSIGN(const auto seconds, next());
    if (!timing.stopped) timing.samples_s.push_back(seconds);
  }
  timing.step_time_s = options.statistic == TimingOptions::Statistic::kMedian
                           ? median(timing.samples_s)
                           : std::accumulate(timing.samples_s.begin(), timing.samples_s.end(), 0.0) /
                                 static_cast<double>(timing.samples_s.size());
  timing.deviation_s = median_deviation(timing.samples_s);
  timing.unsteady = unsteady();
  return timing;
}

Result<StepTiming> StepTimer::time(const std::function<Result<double>()>& step) {
  EMPLACE_TRY_ASSIGN(auto timing, time_steps(options_, step, best_s_));
  best_s_ = std::min(best_s_, timing.step_time_s);
  return timing;
}

}  // namespace emplace

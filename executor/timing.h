#pragma once
/// Times a step as the papers did: warm-up steps, then several timed steps, then their median or mean.
///   Paper: ColocRL 2017, section 3.4 [COL-STEPS]; Hierarchical 2018, section 3 [HIE-STEPS]; Spotlight 2018,
///   section 5.1 [SPO-STEPS]

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "executor/real_executor.h"

namespace emplace {

double median(std::vector<double> values);  ///< @pre not empty
/// Median absolute deviation from the median. @pre not empty
double median_deviation(std::span<const double> values);

/// Fits time = latency + bytes / rate by Theil and Sen (the median of all slopes), which is robust against
/// a few disturbed points. A slope below `least_slope` [s/B] counts as that. @pre at least two different
/// `bytes`
LinkCost fit_link(std::span<const double> bytes, std::span<const double> seconds, double least_slope = 1e-13);

/// Time of a step and its samples.
struct StepTiming {
  double step_time_s = 0;         ///< Statistic of the samples [s].
  double deviation_s = 0;         ///< Median absolute deviation [s].
  std::vector<double> samples_s;  ///< Time of each sample, in order [s].
  bool unsteady = false;  ///< The deviation is above 5 % of the median although more samples were taken.
  bool stopped = false;   ///< It took stop_ratio times the best step; its last step is its only sample.
};

/// Calls `step`, which returns its time [s] or an error, `warmups` times without timing, then `samples`
/// times, and up to `most_samples` times if they spread by more than 5 %. Stops after the second step if both
/// take at least stop_ratio · `best_s`: the first one alone is no evidence, since caches are cold. Errors:
/// the first error of `step`.
Result<StepTiming> time_steps(const TimingOptions& options, const std::function<Result<double>()>& step,
                              double best_s = std::numeric_limits<double>::infinity());

/// Times the placements of one executor, and remembers its best step time for stop_ratio. Thread: one.
class StepTimer {
 public:
  explicit StepTimer(const TimingOptions& options) : options_{options} {}
  /// As time_steps().
  Result<StepTiming> time(const std::function<Result<double>()>& step);

 private:
  TimingOptions options_;
  double best_s_ = std::numeric_limits<double>::infinity();
};

}  // namespace emplace

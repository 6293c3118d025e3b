#pragma once
/// How long a step takes, as the papers measured it: warm-up first, then several steps, then their median or
/// mean.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "executor/real_executor.h"

namespace emplace {

double median(std::vector<double> values);  ///< @pre not empty
/// Median absolute deviation from the median. @pre not empty
double median_deviation(std::span<const double> values);

/// One step's time and the steps behind it.
struct StepTiming {
  double step_time_s = 0;         ///< [s] the statistic of the samples
  double deviation_s = 0;         ///< [s] median absolute deviation
  std::vector<double> samples_s;  ///< [s] in order
  bool unsteady = false;  ///< The deviation is above 5 % of the median, though more samples were taken.
};

/// Runs `step` (which returns its time [s], or why there is none) `warmups` times for nothing, then `samples`
/// times; where they spread by more than 5 %, up to `most_samples`. Errors: the first that `step` returns.
Result<StepTiming> time_steps(const TimingOptions& options, const std::function<Result<double>()>& step);

}  // namespace emplace

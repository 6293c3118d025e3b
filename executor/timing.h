#pragma once
/// Times a step as the papers did: warm-up steps, then several timed steps, then their median or mean.
///   Paper: ColocRL 2017, section 3.4 [COL-STEPS]; Hierarchical 2018, section 3 [HIE-STEPS]; Spotlight 2018,
///   section 5.1 [SPO-STEPS]

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

/// Time of a step and its samples.
struct StepTiming {
  double step_time_s = 0;         ///< Statistic of the samples [s].
  double deviation_s = 0;         ///< Median absolute deviation [s].
  std::vector<double> samples_s;  ///< Time of each sample, in order [s].
  bool unsteady = false;  ///< The deviation is above 5 % of the median although more samples were taken.
};

/// Calls `step`, which returns its time [s] or an error, `warmups` times without timing, then `samples`
/// times, and up to `most_samples` times if they spread by more than 5 %. Errors: the first error of `step`.
Result<StepTiming> time_steps(const TimingOptions& options, const std::function<Result<double>()>& step);

}  // namespace emplace

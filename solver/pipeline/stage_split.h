#pragma once
/// Consecutive parts of the forward pass as stages of a pipeline, one per device.

#include <string_view>

#include "placement/strategy.h"
#include "solver/method.h"

namespace emplace {

/// Cuts the forward pass, in issue order, where few bytes cross, so that the busiest device has least to do
/// among all such cuts whose stages fit by an estimate; by dynamic programming, for several numbers of
/// devices. Then also divides what each device has among several stages: they fill and drain in less time.
/// Backward pass, state and update are where the forward pass reads the same. The best one as measured is the
/// answer.
class StageSplit final : public Method {
 public:
  /// `strategy` must outlive it, and may be filled in later.
  explicit StageSplit(const Strategy& strategy) : strategy_{strategy} {}
  std::string_view name() const override { return "stages"; }
  std::string_view summary() const override { return "consecutive parts of the forward pass, by their time"; }
  /// @pre check_micro_batches(problem.graph).
  Result<Answer> find(const Problem& problem, Executor& executor) const override;

 private:
  const Strategy& strategy_;
};

}  // namespace emplace

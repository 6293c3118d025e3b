#pragma once
/// `pretrained`: the scheduler policy as a method among heuristics.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "heuristics/method.h"
#include "launcher/pretrained/scheduler_policy.h"

namespace emplace::launcher {

/// Places in one walk per granularity, the most likely device each time; the best of these is its one
/// placement. Where that does not fit, walks that keep a reserve follow. Then it draws `samples` placements,
/// at first from scratch, then near the best so far. Its note has the version and hash of the policy.
/// @pre the policy outlives it.
class Pretrained final : public Method {
 public:
  explicit Pretrained(const SchedulerPolicy& policy, std::uint32_t samples = 0)
      : policy_{policy}, samples_{samples} {}
  std::string_view name() const override { return "pretrained"; }
  std::string_view summary() const override {
    return "a policy that was trained on other graphs and machines";
  }
  /// Errors: kNoPlacement for another objective than step time, or more than 254 devices.
  static Result<Unit> check(const Problem& problem);
  /// Errors: those of check(); kRunFailed from the executor.
  Result<Found> find(const Problem& problem, Executor& executor) const override;
  /// The same on the problem's worlds (schedule_worlds()).
  Result<Found> place(const Problem& problem, std::span<const policy::ScheduleWorld> worlds,
                      Executor& executor) const;

 private:
  const SchedulerPolicy& policy_;
  const std::uint32_t samples_;
};

/// The methods that `auto` runs before its searches: every heuristic, and `pretrained` with the weights in
/// the program.
std::vector<const Method*> portfolio_methods();

}  // namespace emplace::launcher

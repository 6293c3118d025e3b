#pragma once
/// `pretrained`: the scheduler policy as a method among heuristics.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "launcher/pretrained/planner.h"
#include "policy/placers/scheduler_policy.h"
#include "solver/method.h"

namespace emplace::launcher {

/// Plans a placement (Planner), and the executor measures it: one placement, one measurement. Then come
/// `samples` more placements near the best so far, each measured. Its note has the version and hash of the
/// policy.
/// @pre the policy outlives it.
class Pretrained final : public Method {
 public:
  explicit Pretrained(const policy::SchedulerPolicy& policy, std::uint32_t samples = 0,
                      PlanBudget budget = {})
      : policy_{policy}, samples_{samples}, budget_{budget} {}
  std::string_view name() const override { return "pretrained"; }
  std::string_view summary() const override {
    return "a policy that was trained on other graphs and machines";
  }
  /// Errors: kNoPlacement for another objective than step time, or more than 254 devices.
  static Result<Unit> check(const Problem& problem);
  /// Errors: those of check(); kRunFailed from the executor.
  Result<Answer> find(const Problem& problem, Executor& executor) const override;

 private:
  const policy::SchedulerPolicy& policy_;
  const std::uint32_t samples_;
  const PlanBudget budget_;
};

/// What `auto` leaves to the policy at its start: about a tenth of 0.3 s.
inline constexpr PlanBudget kPortfolioPlan{.work = 30'000'000, .most_walks = 32, .moving_work = 0};

/// The methods that `auto` runs before its searches: every heuristic, and `pretrained` with the weights in
/// the program.
std::vector<const Method*> portfolio_methods();

}  // namespace emplace::launcher

#include "solver/memory/planned_executor.h"

#include <chrono>
#include <cstdint>
#include <utility>

namespace emplace {
namespace {

/// Evaluations of plans per placement, about: enough for all ladders of ops that run again, and for some with
/// moves. A clock would make measurements depend on the machine.
constexpr std::uint64_t kMostEvaluations = 200;

}  // namespace

PlannedExecutor::PlannedExecutor(const OpGraph& graph, const DeviceSet& devices,
                                 const Constraints& constraints, const Judge& judge, const Allowed& allowed)
    : model_{make_model(graph, devices, judge)},
      costs_{graph, devices},
      problem_{graph, devices, constraints, costs_} {
  if (allowed.memory() && check_plannable(graph)) tuner_.emplace(problem_, judge.simulator, allowed);
}

Result<PlannedPlacement> PlannedExecutor::as_it_is(std::span<const DeviceId> placement) {
  PlannedPlacement found{.placement = {placement.begin(), placement.end()}};
  EMPLACE_TRY(model_->measure(found.placement, found.measurement));
  return found;
}

Result<PlannedPlacement> PlannedExecutor::with_decisions(const Placement& placement,
                                                         const std::function<bool()>& stopped) {
  const std::uint64_t last = tuner_->evaluations() + kMostEvaluations;
  return tuner_->tune(placement, [&] { return tuner_->evaluations() >= last || stopped(); });
}

Result<PlannedPlacement> PlannedExecutor::decide(std::span<const DeviceId> placement) {
  auto found = as_it_is(placement);
  if (!needs_decisions(found)) return found;
  return with_decisions(found->placement, [] { return false; });
}

Result<Unit> PlannedExecutor::measure(std::span<const DeviceId> placement, Measurement& out) {
  EMPLACE_TRY_ASSIGN(PlannedPlacement found, decide(placement));
  out = std::move(found.measurement);
  return Unit{};
}

void PolledPlannedExecutor::start(std::span<const DeviceId> placement, std::span<const DeviceId>) {
  found_ = executor_->as_it_is(placement);
  if (!executor_->needs_decisions(*found_)) return;
  deciding_ = std::async(std::launch::async, [this, own = std::move((*found_)->placement)] {
    return executor_->with_decisions(own, [this] { return ending_.load(); });
  });
  found_.reset();
}

Result<bool> PolledPlannedExecutor::poll(Measurement& out) {
  if (!found_) {
    if (deciding_.wait_for(std::chrono::seconds{0}) != std::future_status::ready) return false;
    found_ = deciding_.get();
  }
  EMPLACE_TRY_ASSIGN(PlannedPlacement found, *std::exchange(found_, {}));
  out = std::move(found.measurement);
  return true;
}

}  // namespace emplace

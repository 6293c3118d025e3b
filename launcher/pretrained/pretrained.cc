#include "launcher/pretrained/pretrained.h"

#include <utility>
#include <vector>

#include "executor/sim/simulator.h"
#include "launcher/settings/schedule_worlds.h"
#include "solver/methods.h"

namespace emplace::launcher {
Result<Unit> Pretrained::check(const Problem& problem) {
  if (problem.objective != Objective::kStepTime)
    return Error{Errc::kNoPlacement, "it is trained for step times only"};
  if (problem.devices.size() >= policy::ScheduleWorld::kNowhere)
    return Error{Errc::kNoPlacement, "it places on at most 254 devices"};
  return Unit{};
}

Result<Answer> Pretrained::find(const Problem& problem, Executor& executor) const {
  EMPLACE_TRY(check(problem));
  const LoweredGraph lowered{problem.graph};
  const auto worlds = planning_worlds(problem, lowered);
  Simulator model{problem.graph, problem.devices};
  Planner planner{policy_, problem, worlds, model};
  EMPLACE_TRY(planner.plan(budget_));
  Answer best{.placement = planner.best().placement, .measurement = {}, .evaluations = 1, .notes = {}};
  EMPLACE_TRY(executor.measure(best.placement, best.measurement));
  for (std::uint32_t sample = 0; sample < samples_; ++sample) {
    if (problem.context.stopped && problem.context.stopped()) break;
    Answer found;
    EMPLACE_TRY_ASSIGN(found.placement, planner.sample(budget_, sample));
    EMPLACE_TRY(executor.measure(found.placement, found.measurement));
    ++best.evaluations;
    if (!better(found.measurement, best.measurement)) continue;
    planner.offer(found.placement, found.measurement.step_time_s, found.measurement.bytes_over);
    best.placement = std::move(found.placement);
    best.measurement = found.measurement;
  }
  best.notes.push_back("policy " + policy_.name());
  return best;
}

std::vector<const Method*> portfolio_methods() {
  static const Pretrained pretrained{policy::shipped_scheduler(), 0, kPortfolioPlan};
  const auto heuristics = all_methods();
  std::vector<const Method*> methods{heuristics.begin(), heuristics.end()};
  methods.push_back(&pretrained);
  return methods;
}

}  // namespace emplace::launcher

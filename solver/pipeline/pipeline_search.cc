#include "solver/pipeline/pipeline_search.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "base/cores.h"
#include "placement/order.h"
#include "solver/memory/plan_tuner.h"
#include "solver/memory/planned_methods.h"
#include "solver/pipeline/stage_split.h"
#include "solver/portfolio/derived_problem.h"
#include "solver/portfolio/portfolio.h"

namespace emplace {
namespace {

/// The part of the budget that looks for what to run again in a graph without blocks: one fifth.
constexpr int kShareOfPlan = 5;

}  // namespace

Result<Answer> search_pipelines(const std::vector<const Method*>& methods, const Problem& problem,
                                const Judge& judge, Executor& executor, const Allowed& allowed) {
  const StageSplit stages{judge.strategy};
  const auto split = [&](const Problem& of, Executor& model) -> Result<Answer> {
    if (of.context.on_method_start) of.context.on_method_start(std::string{stages.name()}, false);
    EMPLACE_TRY_ASSIGN(Answer answer, stages.find(of, model));
    answer.method = stages.name();
    return answer;
  };
  EMPLACE_TRY_ASSIGN(Answer start, split(problem, executor));
  MemoryPlan plan;
  if (allowed.recompute) {
    EMPLACE_TRY(check_plannable(problem.graph));
    plan = block_checkpoints(problem.graph);
    if (plan.empty()) {
      const Nanos now = problem.context.clock->now();
      const Nanos until = now + (problem.context.deadline - now) / kShareOfPlan;
      EMPLACE_TRY_ASSIGN(plan, PlanTuner(problem, judge.simulator, allowed).leanest(start.placement, [&] {
        return problem.context.clock->now() >= until ||
               (problem.context.stopped && problem.context.stopped());
      }));
    }
  }
  std::optional<DerivedProblem> again;
  std::optional<PlannedGraph> graph;
  std::optional<Problem> of_plan;
  std::optional<Answer> planned_start;
  if (!plan.empty()) {
    EMPLACE_TRY_ASSIGN(graph, planned(problem.graph, plan, problem.devices.names()));
    again.emplace(problem, judge, graph->graph, graph->source);
    of_plan.emplace(again->problem());
    of_plan->context = problem.context;
    EMPLACE_TRY_ASSIGN(planned_start, split(*of_plan, again->model()));
  }
  const bool plans = planned_start && better(planned_start->measurement, start.measurement);
  Problem own = plans ? *of_plan : problem;
  Answer& first = plans ? *planned_start : start;
  own.context.starts = {&first, 1};
  if (plans) own.context.better = {};  // It would report placements without the plan.
  EMPLACE_TRY_ASSIGN(Answer answer, run_portfolio(methods, own, judge, plans ? again->model() : executor));
  if (plans) {
    answer.placement = original(answer.placement, *graph);
    answer.plan = plan;
  }
  return answer;
}

Result<Answer> PipelinePortfolio::find(const Problem& problem, Executor& executor) const {
  Problem own = problem;
  own.context = {.clock = &clock_,
                 .deadline = clock_.now() + as_nanos(budget_s_),
                 .threads = usable_cores(),
                 .bound_s = problem.context.bound_s,
                 .moves = moves_,
                 .stopped = problem.context.stopped};
  return search_pipelines(methods_, own, judge_, executor, {});
}

}  // namespace emplace

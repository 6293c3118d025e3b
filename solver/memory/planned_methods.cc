#include "solver/memory/planned_methods.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/cores.h"
#include "graph/scope_names.h"
#include "solver/memory/plan_search.h"
#include "solver/memory/plan_tuner.h"

namespace emplace {
namespace {

/// Takes over a placement with decisions, if it is better than what the answer has.
void take(Answer& answer, PlannedPlacement found) {
  if (!answer.placement.empty() && !better(found.measurement, answer.measurement)) return;
  answer.placement = std::move(found.placement);
  answer.measurement = std::move(found.measurement);
  answer.plan = std::move(found.plan);
}

}  // namespace

Result<Unit> decide_memory(Answer& answer, const Problem& problem, const Judge& judge,
                           const Allowed& allowed) {
  EMPLACE_TRY(check_plannable(problem.graph));
  if (answer.measurement.valid || answer.placement.empty()) return Unit{};
  PlanTuner tuner{problem, judge.simulator, allowed};
  const auto stopped = [&] { return problem.context.stopped && problem.context.stopped(); };
  EMPLACE_TRY_ASSIGN(PlannedPlacement tuned, tuner.tune(answer.placement, stopped));
  answer.evaluations += tuner.evaluations();
  take(answer, std::move(tuned));
  return Unit{};
}

Result<Answer> WithDecisions::find(const Problem& problem, Executor& executor) const {
  EMPLACE_TRY_ASSIGN(Answer answer, method_.find(problem, executor));
  EMPLACE_TRY(decide_memory(answer, problem, judge_, allowed_));
  return answer;
}

Result<Answer> PlannedPortfolio::find(const Problem& problem, Executor& executor) const {
  Problem own = problem;
  own.context = {.clock = &clock_,
                 .deadline = clock_.now() + as_nanos(budget_s_),
                 .threads = usable_cores(),
                 .bound_s = problem.context.bound_s,
                 .moves = moves_,
                 .stopped = problem.context.stopped};
  return search_plans(methods_, own, judge_, executor, allowed_);
}

Result<Answer> BlockCheckpoints::find(const Problem& problem, Executor& executor) const {
  const MemoryPlan plan = block_checkpoints(problem.graph);
  if (plan.empty())
    return Error{Errc::kNoPlacement, "the graph has no blocks: no scope of the forward pass is a number"};
  PlanTuner tuner{problem, judge_.simulator, {.recompute = true}};
  Answer best{.method = std::string{name()}};
  for (const Method* method : heuristics_) {
    if (problem.context.stopped && problem.context.stopped()) break;
    auto placed = method->find(problem, executor);
    if (!placed) {
      if (placed.error().code != Errc::kNoPlacement) return placed.error();
      continue;
    }
    best.evaluations += placed->evaluations + 1;
    EMPLACE_TRY_ASSIGN(Measurement measured, tuner.measure(plan, placed->placement));
    take(best, {plan, std::move(placed->placement), std::move(measured)});
  }
  if (best.placement.empty()) return Error{Errc::kNoPlacement, "no heuristic found a placement"};
  return best;
}

std::vector<std::size_t> block_lengths(const OpGraph& graph) {
  std::vector<std::size_t> block(graph.num_groups(), 0);
  for (std::uint32_t g = 0; g < block.size(); ++g) block[g] = numbered_block(graph.group_name(g)).size();
  return block;
}

MemoryPlan block_checkpoints(const OpGraph& graph) {
  const LoweredGraph lowered{graph};
  const ForwardPass forward{lowered};
  const std::vector<std::size_t> block = block_lengths(graph);
  const auto block_of = [&](OpId op) { return graph.group_name(op).substr(0, block[graph.group(op)]); };
  MemoryPlan plan;
  for (const OpId op : forward.kernels()) {
    if (block_of(op).empty() || !forward.may_run_again(op)) continue;
    bool leaves = false;
    for (std::uint32_t b = lowered.first_owned(op); b < lowered.end_owned(op); ++b)
      for (const OpId reader : lowered.readers(BufferId{b}))
        leaves = leaves || (graph.phase(reader) == Phase::kForward && block_of(reader) != block_of(op));
    if (!leaves) plan.recompute.push_back(op);
  }
  return plan;
}

}  // namespace emplace

#include "solver/pipeline/pipeline_search.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cores.h"
#include "graph/lowering.h"
#include "graph/scope_names.h"
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
// Attempts to run fewer blocks again, by the share of a memory that they may fill by estimate. A split with
// all memory full in the first one has no room to balance the stages.
constexpr std::array kFilled{0.7, 0.8, 0.9, 0.97};

/// A split into stages whose forward pass runs in part again for its backward pass.
struct PlannedStages {
  MemoryPlan plan;
  PlannedGraph graph;
  DerivedProblem problem;
  Answer answer{};  ///< Placement of the plan's graph.

  PlannedStages(const Problem& of, const Judge& judge, MemoryPlan own, PlannedGraph made)
      : plan{std::move(own)}, graph{std::move(made)}, problem{of, judge, graph.graph, graph.source} {}
};

Result<Answer> split(const StageSplit& stages, const Problem& problem, Executor& model) {
  if (problem.context.on_method_start) problem.context.on_method_start(std::string{stages.name()}, false);
  EMPLACE_TRY_ASSIGN(Answer answer, stages.find(problem, model));
  answer.method = stages.name();
  return answer;
}

/// The best stages for a plan, or `known`, a placement of the original graph, if that is better.
Result<std::unique_ptr<PlannedStages>> split_with(const Problem& problem, const Judge& judge, MemoryPlan plan,
                                                  const Placement& known) {
  EMPLACE_TRY_ASSIGN(PlannedGraph made, planned(problem.graph, plan, problem.devices.names()));
  auto own = std::make_unique<PlannedStages>(problem, judge, std::move(plan), std::move(made));
  Problem of_plan = own->problem.problem();
  of_plan.context = problem.context;
  const StageSplit stages{judge.strategy};
  EMPLACE_TRY_ASSIGN(own->answer, split(stages, of_plan, own->problem.model()));
  if (known.empty()) return own;
  Answer same{.placement = planned(known, own->graph), .method = own->answer.method};
  EMPLACE_TRY(own->problem.model().measure(same.placement, same.measurement));
  if (better(same.measurement, own->answer.measurement)) own->answer = std::move(same);
  return own;
}

/// The plan without the blocks that fit if they are kept: late ones first, since fewer micro-batches wait for
/// their return.
MemoryPlan with_fewer_blocks(const Problem& problem, const Strategy& strategy, const PlannedStages& stages,
                             double filled) {
  struct Block {
    std::size_t device = 0;
    std::int64_t bytes = 0;  // Outputs that its backward pass reads.
    std::int64_t in_flight = 0;
  };
  const LoweredGraph lowered{problem.graph};
  const Placement placement = original(stages.answer.placement, stages.graph);
  std::map<std::string_view, Block> blocks;
  std::vector<std::string_view> in_order;
  for (const OpId op : stages.plan.recompute) {
    const std::string_view name = numbered_block(problem.graph.group_name(op));
    if (name.empty()) continue;
    const auto [at, added] = blocks.try_emplace(name);
    if (added) in_order.push_back(name);
    at->second.device = index(placement[index(op)]);
    for (std::uint32_t b = lowered.first_owned(op); b < lowered.end_owned(op); ++b)
      if (std::ranges::any_of(lowered.readers(BufferId{b}),
                              [&](OpId reader) { return problem.graph.phase(reader) != Phase::kForward; }))
        at->second.bytes += lowered.held_bytes(lowered.base(BufferId{b}));
  }
  std::int64_t left = 1;  // Stages from a block to the end.
  for (std::size_t k = in_order.size(); k-- > 0;) {
    Block& block = blocks[in_order[k]];
    if (k + 1 < in_order.size() && blocks[in_order[k + 1]].device != block.device) ++left;
    block.in_flight = strategy.schedule == PipelineSchedule::kGPipe
                          ? strategy.micro_batches
                          : std::min<std::int64_t>(strategy.micro_batches, left);
  }
  std::vector<double> room;
  for (std::size_t d = 0; d < problem.devices.size(); ++d)
    room.push_back(filled * static_cast<double>(problem.devices[static_cast<DeviceId>(d)].memory_bytes) -
                   static_cast<double>(stages.answer.measurement.peak_bytes[d]));
  std::map<std::string_view, bool> kept;
  for (std::size_t k = in_order.size(); k-- > 0;) {
    const Block& block = blocks[in_order[k]];
    const auto needed = static_cast<double>(block.bytes * block.in_flight);
    if (needed > room[block.device]) continue;
    room[block.device] -= needed;
    kept[in_order[k]] = true;
  }
  MemoryPlan plan = stages.plan;
  std::erase_if(plan.recompute,
                [&](OpId op) { return kept.contains(numbered_block(problem.graph.group_name(op))); });
  return plan;
}

/// What runs again by default: blocks, or in a graph without blocks what leaves the least waiting.
Result<MemoryPlan> default_plan(const Problem& problem, const Judge& judge, const Allowed& allowed,
                                const Placement& start) {
  EMPLACE_TRY(check_plannable(problem.graph));
  MemoryPlan plan = block_checkpoints(problem.graph);
  if (!plan.empty()) return plan;
  const Nanos now = problem.context.clock->now();
  const Nanos until = now + (problem.context.deadline - now) / kShareOfPlan;
  return PlanTuner(problem, judge.simulator, allowed).leanest(start, [&] {
    return problem.context.clock->now() >= until || (problem.context.stopped && problem.context.stopped());
  });
}

/// The best stages with recomputation; null if nothing can run again.
Result<std::unique_ptr<PlannedStages>> recomputing_stages(const Problem& problem, const Judge& judge,
                                                          const Allowed& allowed, const Placement& start) {
  EMPLACE_TRY_ASSIGN(MemoryPlan plan, default_plan(problem, judge, allowed, start));
  if (plan.empty()) return std::unique_ptr<PlannedStages>{};
  EMPLACE_TRY_ASSIGN(auto best, split_with(problem, judge, std::move(plan), {}));
  const Nanos start_at = problem.context.clock->now();
  const Nanos until = start_at + (problem.context.deadline - start_at) / 2;
  for (const double filled : kFilled) {
    if (!best->answer.measurement.valid || problem.context.clock->now() >= until) break;
    MemoryPlan less = with_fewer_blocks(problem, judge.strategy, *best, filled);
    if (less.recompute.size() == best->plan.recompute.size()) continue;
    const Placement known = original(best->answer.placement, best->graph);
    EMPLACE_TRY_ASSIGN(auto next, split_with(problem, judge, std::move(less), known));
    if (better(next->answer.measurement, best->answer.measurement)) best = std::move(next);
  }
  return best;
}

}  // namespace

Result<Answer> search_pipelines(const std::vector<const Method*>& methods, const Problem& problem,
                                const Judge& judge, Executor& executor, const Allowed& allowed) {
  EMPLACE_TRY_ASSIGN(Answer start, split(StageSplit{judge.strategy}, problem, executor));
  std::unique_ptr<PlannedStages> again;
  if (allowed.recompute) {
    EMPLACE_TRY_ASSIGN(again, recomputing_stages(problem, judge, allowed, start.placement));
    if (again && !better(again->answer.measurement, start.measurement)) again.reset();
  }
  Problem own = again ? again->problem.problem() : problem;
  own.context = problem.context;
  own.context.starts = {again ? &again->answer : &start, 1};
  if (again) own.context.better = {};  // It would report placements without the plan.
  EMPLACE_TRY_ASSIGN(Answer answer,
                     run_portfolio(methods, own, judge, again ? again->problem.model() : executor));
  if (again) {
    answer.placement = original(answer.placement, again->graph);
    answer.plan = again->plan;
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

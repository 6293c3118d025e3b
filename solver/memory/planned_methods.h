#pragma once
/// Methods whose placements come with memory decisions (graph/memory_plan.h), for comparisons.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "executor/split/judge.h"
#include "placement/allowed.h"
#include "solver/method.h"

namespace emplace {

/// Decides about memory for a placement that does not fit, and takes the decisions over if they are better.
/// The search ends by itself, or when the problem's context is stopped. Errors: check_plannable(), and those
/// of PlanTuner::tune().
Result<Unit> decide_memory(Answer& answer, const Problem& problem, const Judge& judge,
                           const Allowed& allowed);

/// A method that chooses devices, and decisions about memory where its placement does not fit. `method` and
/// `judge` must outlive it.
class WithDecisions final : public Method {
 public:
  WithDecisions(const Method& method, const Judge& judge, const Allowed& allowed)
      : method_{method}, judge_{judge}, allowed_{allowed} {}
  std::string_view name() const override { return method_.name(); }
  std::string_view summary() const override { return method_.summary(); }
  bool transforms_graph() const override { return method_.transforms_graph(); }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;

 private:
  const Method& method_;
  const Judge& judge_;
  const Allowed allowed_;
};

/// `auto` with memory decisions (search_plans()). `judge` and `clock` must outlive it.
class PlannedPortfolio final : public Method {
 public:
  PlannedPortfolio(std::vector<const Method*> methods, MoveGuide moves, const Judge& judge,
                   const Allowed& allowed, const Clock& clock, double budget_s)
      : methods_{std::move(methods)},
        moves_{std::move(moves)},
        judge_{judge},
        allowed_{allowed},
        clock_{clock},
        budget_s_{budget_s} {}
  std::string_view name() const override { return "auto"; }
  std::string_view summary() const override { return "devices and memory decisions in one search"; }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;

 private:
  const std::vector<const Method*> methods_;
  const MoveGuide moves_;
  const Judge& judge_;
  const Allowed allowed_;
  const Clock& clock_;
  const double budget_s_;
};

/// Every block runs again for its backward pass, as `gradient_checkpointing_enable()` of transformers does
/// it, with the best placement of some heuristics. What they refer to must outlive it.
class BlockCheckpoints final : public Method {
 public:
  BlockCheckpoints(std::vector<const Method*> heuristics, const Judge& judge)
      : heuristics_{std::move(heuristics)}, judge_{judge} {}
  std::string_view name() const override { return "block-checkpoints"; }
  std::string_view summary() const override { return "every block runs again for its backward pass"; }
  /// Errors: kNoPlacement if the graph has no blocks.
  Result<Answer> find(const Problem& problem, Executor& executor) const override;

 private:
  const std::vector<const Method*> heuristics_;
  const Judge& judge_;
};

/// [groups] The length of a scope's name up to its first level that is a number; 0: it has none.
std::vector<std::size_t> block_lengths(const OpGraph& graph);

/// The plan of block checkpoints. Blocks are the scopes up to a level that is a number ("encoder/layer/3").
/// What the forward pass reads of a block outside of it is kept. Empty if the graph has no blocks.
MemoryPlan block_checkpoints(const OpGraph& graph);

}  // namespace emplace

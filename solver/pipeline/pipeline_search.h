#pragma once
/// Placements for steps of several micro-batches (docs/reference/pipelines.md).

#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "executor/split/judge.h"
#include "placement/allowed.h"
#include "solver/method.h"

namespace emplace {

/// `auto` from the best split into stages, until the deadline of the problem's context, whose clock must be
/// there. Where `allowed` permits recomputation, everything in a block may also run again for its backward
/// pass (in a graph without blocks: what leaves the least waiting), if the stages are then better. Errors:
/// those of run_portfolio().
Result<Answer> search_pipelines(const std::vector<const Method*>& methods, const Problem& problem,
                                const Judge& judge, Executor& executor, const Allowed& allowed);

/// `auto` for such steps among other methods, within one budget on every core. What it refers to must outlive
/// it.
class PipelinePortfolio final : public Method {
 public:
  PipelinePortfolio(std::vector<const Method*> methods, MoveGuide moves, const Judge& judge,
                    const Clock& clock, double budget_s)
      : methods_{std::move(methods)},
        moves_{std::move(moves)},
        judge_{judge},
        clock_{clock},
        budget_s_{budget_s} {}
  std::string_view name() const override { return "auto"; }
  std::string_view summary() const override {
    return "stages, all heuristics, then searches from the best of them";
  }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;

 private:
  const std::vector<const Method*> methods_;
  const MoveGuide moves_;
  const Judge& judge_;
  const Clock& clock_;
  const double budget_s_;
};

}  // namespace emplace

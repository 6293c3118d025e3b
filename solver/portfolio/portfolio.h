#pragma once
/// The best placement within a time budget: heuristics first, then searches from their best result on every
/// core.

#include <string_view>
#include <utility>
#include <vector>

#include "executor/split/judge.h"
#include "solver/method.h"
#include "solver/search/move_proposer.h"

namespace emplace {

/// Runs `methods` in turn, the most valuable for their time first, then the searches until the budget is used
/// up, or a placement reaches the bound: both are in the problem's context, whose clock must be there.
/// Methods get half of the budget: an exact method stops then; the others, once started, are not interrupted.
/// The answer counts the evaluations of all methods. Errors: kNoPlacement if no method finds a placement;
/// kRunFailed from the executor.
Result<Answer> run_portfolio(const std::vector<const Method*>& methods, const Problem& problem,
                             const Judge& judge, Executor& executor);

/// `auto` among other methods: `methods`, then searches, within one budget on every core. `ordered`:
/// `auto+order`, which also searches for an order (ordered_portfolio.h), in which its measurement is. Of the
/// problem's context it uses `stopped` and `starts`. @pre `judge`, `clock` and the methods outlive it.
class Portfolio final : public Method {
 public:
  Portfolio(std::vector<const Method*> methods, MoveGuide moves, const Judge& judge, const Clock& clock,
            double budget_s, bool ordered = false)
      : methods_{std::move(methods)},
        judge_{judge},
        moves_{std::move(moves)},
        clock_{clock},
        budget_s_{budget_s},
        ordered_{ordered} {}
  std::string_view name() const override { return ordered_ ? "auto+order" : "auto"; }
  std::string_view summary() const override {
    return ordered_ ? "auto, with a search for the order of ops"
                    : "all heuristics, then searches from the best of them";
  }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;

 private:
  const std::vector<const Method*> methods_;
  const Judge& judge_;
  const MoveGuide moves_;
  const Clock& clock_;
  const double budget_s_;
  const bool ordered_;
};

}  // namespace emplace

#pragma once
/// The best placement within a time budget: heuristics first, then searches from their best result on every
/// core.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/split/judge.h"
#include "solver/method.h"
#include "solver/search/move_proposer.h"

namespace emplace {

/// A better placement: the method that found it, and when.
struct Finding {
  std::string method;
  double seconds = 0;  ///< Step time of the placement, as measured by the judge [s].
  double at_s = 0;     ///< Time since the start of the portfolio [s].
};

struct Answer {
  Found found;
  std::string method;             ///< Method that found it.
  std::uint64_t evaluations = 0;  ///< Total over all methods.
  std::vector<Finding> findings;  ///< Each one better than the previous.
  int status = 0;                 ///< 130 or 143 if a signal ended a search process.
};

struct PortfolioOptions {
  double budget_s = 30;
  unsigned threads = 1;                          ///< Number of parallel searches.
  std::string start_method = "start placement";  ///< Method that found `problem.limits.starts`.
  bool searches = true;                          ///< False: heuristics only.
  /// Proven lower bound of the objective [s]; the portfolio ends once a placement reaches it. 0: none.
  double bound_s = 0;
  /// Move proposers of the searches; empty, or if it makes none: tree moves for step times, else random
  /// moves.
  MoveGuide moves;
  /// Polled often, only by the calling thread; true ends the portfolio with its current result.
  std::function<bool()> stopped;
  /// Called when the calling thread starts a method.
  std::function<void(const std::string& method)> on_method_start;
  /// Called with each better placement that fits, one call at a time, from any thread.
  std::function<void(const Finding&, const Placement&)> better;
};

/// True if no placement has a smaller value than `seconds`, given a proven lower bound of the objective [s].
/// Bounds and values are sums of whole nanoseconds, so a part in 10^9 is rounding.
inline bool reaches_bound(double seconds, double bound_s) {
  return bound_s > 0 && seconds <= bound_s * (1 + 1e-9);
}

/// Runs `methods` in turn, the most valuable for their time first, then the searches until the budget is used
/// up, or a placement reaches `bound_s`. Of `problem.limits` only `starts` is used. Methods get half of the
/// budget: an exact method stops then; the others, once started, are not interrupted. Errors: kNoPlacement if
/// no method finds a placement; kRunFailed from the executor.
Result<Answer> run_portfolio(const std::vector<const Method*>& methods, const Problem& problem,
                             const Judge& judge, Executor& executor, const Clock& clock,
                             const PortfolioOptions& options);

/// `auto` among other methods: `methods`, then searches, within one budget on every core.
/// @pre `judge`, `clock` and the methods outlive it.
class Portfolio : public Method {
 public:
  Portfolio(std::vector<const Method*> methods, MoveGuide moves, const Judge& judge, const Clock& clock,
            double budget_s)
      : methods_{std::move(methods)},
        moves_{std::move(moves)},
        judge_{judge},
        clock_{clock},
        budget_s_{budget_s} {}
  std::string_view name() const override { return "auto"; }
  std::string_view summary() const override { return "all heuristics, then searches from the best of them"; }
  Result<Found> find(const Problem& problem, Executor& executor) const override;

 protected:
  PortfolioOptions options_for(const Problem& problem) const;

  const std::vector<const Method*> methods_;
  const MoveGuide moves_;
  const Judge& judge_;
  const Clock& clock_;

 private:
  const double budget_s_;
};

}  // namespace emplace

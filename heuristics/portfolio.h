#pragma once
/// The best placement within a budget: heuristics at once, then searches from the best of them, on every
/// core.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "executor/split/judge.h"
#include "heuristics/method.h"
#include "heuristics/search/move_proposer.h"

namespace emplace {

/// A better placement, who found it, and when.
struct Finding {
  std::string method;
  double seconds = 0;  ///< Of the placement, by the judge.
  double at_s = 0;     ///< Since the portfolio began.
};

struct Answer {
  Found found;
  std::string method;             ///< Who found it.
  std::uint64_t evaluations = 0;  ///< Of all that were asked.
  std::vector<Finding> findings;  ///< Each better than the one before.
  int status = 0;                 ///< 130 or 143 if a signal ended a run of its own.
};

struct PortfolioOptions {
  double budget_s = 30;
  unsigned threads = 1;                                      ///< Searches side by side.
  std::string start_method = "the placement it began with";  ///< Who found `problem.limits.starts`.
  bool searches = true;                                      ///< False: heuristics only.
  /// A proven lower bound of the objective [s]: the portfolio ends once a placement reaches it. 0: none.
  double bound_s = 0;
  /// What searches try next; empty: random moves. Called on any thread.
  MoveProposerFactory moves;
  /// Asked often, by the calling thread only; true ends everything with what there is.
  std::function<bool()> stopped;
  /// Told what the calling thread begins.
  std::function<void(const std::string& method)> begins;
  /// Told of each better placement that fits, one at a time, from any thread.
  std::function<void(const Finding&, const Placement&)> better;
};

/// True if no placement has a smaller value than `seconds`, given a proven lower bound of the objective [s].
/// Bounds and values are sums of whole nanoseconds, so a part in 10^9 is rounding.
inline bool reaches_bound(double seconds, double bound_s) {
  return bound_s > 0 && seconds <= bound_s * (1 + 1e-9);
}

/// Cores that this process may use.
unsigned usable_cores();

/// Runs `methods` in turn, the most worth for their time first, then the searches until the budget is over.
/// Ends early if `bound_s` is reached. `problem.limits` are not used but for `starts`. Half of the budget is
/// for them: an exact method gives up then, the others, once begun, are not cut short. Errors: kNoPlacement
/// if no method has anything to say; kRunFailed of the executor.
Result<Answer> run_portfolio(const std::vector<const Method*>& methods, const Problem& problem,
                             const Judge& judge, Executor& executor, const Clock& clock,
                             const PortfolioOptions& options);

/// `auto` among other methods: every heuristic, then searches, within one budget on every core.
/// @pre `judge` and `clock` outlive it.
class Portfolio final : public Method {
 public:
  Portfolio(const Judge& judge, const Clock& clock, double budget_s)
      : judge_{judge}, clock_{clock}, budget_s_{budget_s} {}
  std::string_view name() const override { return "auto"; }
  std::string_view summary() const override { return "all heuristics, then searches from the best of them"; }
  Result<Found> find(const Problem& problem, Executor& executor) const override;

 private:
  const Judge& judge_;
  const Clock& clock_;
  const double budget_s_;
};

}  // namespace emplace

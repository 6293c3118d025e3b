#pragma once
/// The portfolio, with a search for the order in which devices take their ready ops.

#include <functional>
#include <vector>

#include "heuristics/order_search.h"
#include "heuristics/portfolio.h"

namespace emplace {

struct OrderedAnswer {
  Answer answer;             ///< Its measurement is in this order.
  OpOrder order;             ///< Empty: the issue order, because no other was better.
  Measurement issue;         ///< The same placement in issue order.
  double issue_seconds = 0;  ///< Best step time that was found in issue order; 0: nothing fits in it [s].
};

struct OrderedOptions {
  PortfolioOptions portfolio;  ///< Its `better` is not used.
  /// Called with each better placement that fits and its order (empty: issue order), one call at a time, from
  /// any thread.
  std::function<void(const Finding&, const Placement&, const OpOrder&)> better;
};

/// Runs run_portfolio() in issue order for part of the budget. Then it searches in turn for an order of the
/// best placement, and for placements of the graph renumbered in the best orders, which all methods take as
/// it is. The answer is never worse than that of the first part. Errors: those of run_portfolio();
/// kUnsupported for another objective than the step time, and in `fifo` dispatch.
Result<OrderedAnswer> run_ordered_portfolio(const std::vector<const Method*>& methods, const Problem& problem,
                                            const Judge& judge, Executor& executor, const Clock& clock,
                                            const OrderedOptions& options);

}  // namespace emplace

#pragma once
/// The portfolio, with a search for the order in which devices take their ready ops.

#include <functional>
#include <vector>

#include "solver/portfolio/portfolio.h"
#include "solver/search/order_search.h"

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

/// Runs the methods in issue order. Then it searches briefly for placements from the best pairs of a method's
/// placement and a simple order, that in issue order among them; also from placements that do not fit, since
/// one that nearly fits is a better start than one that hardly uses a device. In the rest of the budget it
/// searches for placements in the best order, then for an order of the best placement. Placements are
/// searched on the graph renumbered in the order, which every search takes as it is. The answer is never
/// worse than what was found in issue order on the way. Errors: those of run_portfolio(); kUnsupported for
/// another objective than the step time, and in `fifo` dispatch.
Result<OrderedAnswer> run_ordered_portfolio(const std::vector<const Method*>& methods, const Problem& problem,
                                            const Judge& judge, Executor& executor, const Clock& clock,
                                            const OrderedOptions& options);

/// `auto+order` among other methods: `methods`, then searches for placements and orders, within one
/// budget on every core. Its measurement is in the order that it found. @pre `judge`, `clock` and the methods
/// outlive it.
class OrderedPortfolio final : public Portfolio {
 public:
  using Portfolio::Portfolio;
  std::string_view name() const override { return "auto+order"; }
  std::string_view summary() const override { return "auto, with a search for the order of ops"; }
  Result<Found> find(const Problem& problem, Executor& executor) const override;
};

}  // namespace emplace

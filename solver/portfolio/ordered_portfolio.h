#pragma once
/// The portfolio, with a search for the order in which devices take their ready ops.

#include <vector>

#include "solver/portfolio/portfolio.h"
#include "solver/search/order_search.h"

namespace emplace {

/// Runs the methods in issue order. Then it searches briefly for placements from the best pairs of a method's
/// placement and a simple order, that in issue order among them; also from placements that do not fit, since
/// one that nearly fits is a better start than one that hardly uses a device. In the rest of the budget it
/// searches for placements in the best order, then for an order of the best placement. Placements are
/// searched on the graph renumbered in the order, which every search takes as it is. The answer is never
/// worse than what was found in issue order on the way. Errors: those of run_portfolio(); kUnsupported for
/// another objective than the step time, and in `fifo` dispatch.
Result<Answer> run_ordered_portfolio(const std::vector<const Method*>& methods, const Problem& problem,
                                     const Judge& judge, Executor& executor);

}  // namespace emplace

#pragma once
/// One search over devices, memory decisions and order (docs/reference/memory_plans.md).

#include <vector>

#include "executor/split/judge.h"
#include "solver/method.h"
#include "solver/request.h"

namespace emplace {

/// `auto` with memory decisions, until the deadline of the problem's context, whose clock must be there:
/// finds placements, decides for each what waits, is recomputed or is moved, searches for placements of the
/// graph with these decisions in it, and decides again. With `allowed.order` an order is searched at the end.
/// The answer's order is that of its plan's graph. Errors: those of run_portfolio() and planned().
Result<Answer> search_plans(const std::vector<const Method*>& methods, const Problem& problem,
                            const Judge& judge, Executor& executor, const Allowed& allowed);

}  // namespace emplace

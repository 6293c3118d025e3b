#pragma once
/// Placements for steps of several micro-batches (docs/reference/pipelines.md).

#include <vector>

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

}  // namespace emplace

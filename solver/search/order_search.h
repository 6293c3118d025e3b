#pragma once
/// The order in which devices take their ready ops, for one placement: it decides memory, and which ops wait.

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "executor/sim/simulator.h"
#include "graph/order.h"
#include "solver/method.h"

namespace emplace {

/// A topological order of the ops as their ids list them: by id where ids are topological.
OpOrder issue_order(const OpGraph& graph);

/// Orders that are made without a search, always as many and in the same sequence, the issue order first:
/// - late: each op moved back to its first reader
/// - by upward rank: the longest path to the end of the step under this placement comes first, with transfers
/// - blends of upward rank with the issue order and with late
/// - eager: of some of these, with each op that frees as much memory as it takes moved to where it is ready
std::vector<OpOrder> simple_orders(const Problem& problem, const Placement& placement);

/// Searches for the order in which `placement` has its best step: the best of `starts` and of the simple
/// orders, then simulated annealing. A move advances or postpones one op, with the ops that it depends on or
/// that depend on it: within a run of ops on the critical chain that wait only for their device, around the
/// copies that wait for an engine, and, if the placement does not fit, around the moment of the highest
/// memory. The cost is that of placement searches (solver/search/anneal.h). Of the problem's context it uses
/// clock, deadline, stopped and evaluations, the maximum number of simulated steps without those of the
/// simple orders (0: no limit with a clock, else 2,000). `stream`: random stream; parallel searches use
/// different ones. Without a deadline the result is a function of its arguments. Errors: kUnsupported in
/// `fifo` dispatch; those of the simulator. @pre the objective is the step time.
Result<Answer> search_order(const Problem& problem, const Placement& placement,
                            const SimulatorOptions& simulator, std::uint64_t stream = 0,
                            std::span<const OpOrder> starts = {});

}  // namespace emplace

#pragma once
/// What a search may use while it runs, and its callbacks.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/clock.h"
#include "graph/order.h"
#include "placement/placement.h"
#include "solver/answer.h"
#include "solver/search/move_proposer.h"

namespace emplace {

/// Limits, start and callbacks of a search. By default a method chooses limits and start itself, and its
/// result is a function of the problem. Thread: a plain value; what it refers to must outlive the search.
struct Context {
  /// With a clock the search runs until `deadline`. Null: a function of the number of evaluations.
  const Clock* clock = nullptr;
  Nanos deadline{};
  std::uint64_t evaluations = 0;  ///< Maximum number of evaluations; 0: no limit.
  unsigned threads = 1;           ///< Number of parallel searches.
  bool searches = true;           ///< False: the portfolio runs its heuristics only.
  /// Earlier results, used instead of running the other methods. Their evaluations count as spent.
  std::span<const Answer> starts;
  /// Proven lower bound of the objective [s]; the portfolio ends once a placement reaches it. 0: none is
  /// known; solve() then computes it.
  double bound_s = 0;
  /// Move proposers of the portfolio's searches; empty, or if it makes none: tree moves for step times, else
  /// random moves.
  MoveGuide moves;

  /// Polled often, only by the calling thread; true ends the search with its current result.
  std::function<bool()> stopped;
  /// Called when the calling thread starts a method. `polls`: it polls `stopped` and ends with its best
  /// result.
  std::function<void(const std::string& method, bool polls)> on_method_start;
  /// Called with each better placement that fits and its order (empty: issue order), one call at a time, from
  /// any thread. A search that is not part of a portfolio leaves the method and the time out.
  std::function<void(const Finding&, const Placement&, const OpOrder&)> better;
};

/// True if no placement has a smaller value than `seconds`, given a proven lower bound of the objective [s].
/// Bounds and values are sums of whole nanoseconds, so a part in 10^9 is rounding.
inline bool reaches_bound(double seconds, double bound_s) {
  return bound_s > 0 && seconds <= bound_s * (1 + 1e-9);
}

}  // namespace emplace

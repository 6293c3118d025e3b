#pragma once
/// Placements whose step time holds under noise: a search for a low percentile of noisy steps among those
/// that are nearly the fastest without noise.

#include <cstdint>
#include <functional>
#include <span>

#include "base/clock.h"
#include "executor/sim/jitter.h"
#include "executor/split/judge.h"
#include "solver/method.h"

namespace emplace {

struct RobustOptions {
  Jitter jitter;
  double quantile = 0.9;     ///< The search minimises this quantile of noisy steps.
  double slack = 0.02;       ///< Largest excess of the step time without noise over the best one found.
  std::uint32_t draws = 64;  ///< Noisy steps by which finalists are compared.
  unsigned threads = 1;      ///< Number of parallel searches.
  Nanos deadline{};
  std::function<bool()> stopped;  ///< Polled often, only by the calling thread; true ends the search.
};

/// Both measurements are without noise.
struct RobustFound {
  Found found;    ///< The answer; its step time is at most `slack` above that of `fastest`.
  Found fastest;  ///< The fastest placement without noise, of the starts and of what the search met.
};

/// Searches from `starts` until the deadline. A walk compares estimates of the percentile from few draws, the
/// same for all of its placements, and skips the draws of a placement that is too slow without noise. Its
/// best placements are finalists. They are compared by all draws, which no walk has seen; the best one starts
/// the next walk. A placement that fits in more draws wins, whatever its time. The answer is never worse in
/// these draws than `fastest`; `slack` is counted from it, also where a walk finds a faster one than the
/// starts. Errors: kUnsupported for another objective than the step time, and for Placeto's simulator;
/// kNoPlacement if no start fits without noise; those of the simulator.
Result<RobustFound> search_robust(const Problem& problem, const Judge& judge, const Clock& clock,
                                  std::span<const Placement> starts, const RobustOptions& options);

/// First of the draws that search_robust() uses; those below are for reports.
inline constexpr std::uint32_t kFirstSearchDraw = 1u << 24;

}  // namespace emplace

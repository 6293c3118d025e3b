#pragma once
/// Placements whose step time holds under noise: a search for a low percentile of noisy steps among those
/// that are nearly the fastest without noise.

#include <cstdint>
#include <span>

#include "base/result.h"
#include "solver/method.h"
#include "solver/request.h"

namespace emplace {

/// Searches from `starts` until the deadline of the problem's context, on its threads, for the lowest
/// `quantile` of steps with the noise of the request. The answer and its `fastest` are without noise:
/// `fastest` is the fastest placement of the starts and of what the search met. A walk compares estimates of
/// the percentile from few draws, the same for all of its placements, and skips the draws of a placement that
/// is too slow without noise. Its best placements are finalists. They are compared by all draws, which no
/// walk has seen; the best one starts the next walk. A placement that fits in more draws wins, whatever its
/// time. The answer is never worse in these draws than `fastest`; `slack` is counted from it, also where a
/// walk finds a faster one than the starts. Errors: kUnsupported for another objective than the step time,
/// and for Placeto's simulator; kNoPlacement if no start fits without noise; those of the simulator.
Result<Answer> search_robust(const Problem& problem, const Request& request,
                             std::span<const Placement> starts);

/// First of the draws that search_robust() uses; those below are for reports.
inline constexpr std::uint32_t kFirstSearchDraw = 1u << 24;

}  // namespace emplace

#pragma once
/// Bounds the latency of splits by a path, with the transfers and the memory of the pieces that it passes
/// through. The proof is in docs/proofs/bounds.md.

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "placement/placement.h"
#include "placement/split_costs.h"

namespace emplace {

struct IdealBound {
  std::int64_t ps = 0;    ///< 0 if there are too many ideals.
  std::vector<OpId> ops;  ///< The ops whose ideals were enumerated: all, or only the path.
};

/// The least time that `path`, a chain of ops, takes over all ways to add its ops piece by piece. O(ideals² ·
/// nets) for at most 400 ideals. Pure; any thread.
IdealBound ideal_bound(const SplitCosts& costs, const Constraints& constraints,
                       const std::vector<OpId>& path);

}  // namespace emplace

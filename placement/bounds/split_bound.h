#pragma once
/// Proven lower bounds of the cost models of splits. docs/proofs/bounds.md has the proofs.

#include <string_view>

#include "placement/objective.h"
#include "placement/placement.h"
#include "placement/split_costs.h"

namespace emplace {

struct SplitBound {
  double seconds = 0;
  std::string_view which;  ///< "critical path", "total work" or "largest class".
};

/// Of the latency: the longest path, every op at its fastest. Of loads: all work divided at will between the
/// accelerators and the CPUs, no transfers; and the largest co-location class at its fastest. Holds for any
/// memory.
/// @pre `objective` is not kStepTime. O(ops log ops).
SplitBound split_bound(const SplitCosts& costs, const Constraints& constraints, Objective objective);

}  // namespace emplace

#pragma once
/// Proven lower bounds for the cost models of splits. The proofs are in docs/proofs/bounds.md.

#include <string_view>

#include "placement/objective.h"
#include "placement/placement.h"
#include "placement/split_costs.h"

namespace emplace {

struct SplitBound {
  double seconds = 0;
  std::string_view which;  ///< One of "critical path", "total work", "largest class".
};

/// Bounds the latency by the longest path with each op at its fastest. Bounds loads by the total work,
/// divided freely between accelerators and CPUs without transfers, and by the largest co-location class at
/// its fastest. Valid for any amount of memory. O(ops log ops). @pre `objective` is not kStepTime.
SplitBound split_bound(const SplitCosts& costs, const Constraints& constraints, Objective objective);

}  // namespace emplace

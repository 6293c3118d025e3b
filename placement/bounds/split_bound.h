#pragma once
/// Proven lower bounds for the cost models of splits. The proofs are in docs/proofs/bounds.md.

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "placement/bounds/bound_proof.h"
#include "placement/objective.h"
#include "placement/placement.h"
#include "placement/split_costs.h"

namespace emplace {

struct SplitBound {
  double seconds = 0;
  /// kPath or kIdeals for the latency, kWork or kLargestClass for loads.
  BoundProof proof = BoundProof::kPath;
  std::int64_t whole_ps = 0;  ///< Length of the path or time of the class, exactly.
  std::vector<OpId> path;     ///< The longest path, first op first; only of the latency.
  std::vector<OpId> ops;      ///< The ops whose ideals prove it (kIdeals).
  /// Prices of an accelerator's and a CPU's time that prove it (kWork).
  std::int64_t accelerator_price = 0, cpu_price = 0;
  std::uint32_t largest_class = 0;
};

/// Bounds the latency by the longest path with each op at its fastest, or with the pieces that it passes
/// through. Bounds loads by the total work, divided freely between accelerators and CPUs without transfers,
/// and by the largest co-location class at its fastest; valid for any amount of memory. O(ops log ops). @pre
/// `objective` is not kStepTime.
SplitBound split_bound(const SplitCosts& costs, const Constraints& constraints, Objective objective);

}  // namespace emplace

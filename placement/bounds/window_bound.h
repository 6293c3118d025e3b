#pragma once
/// What must lie between the earliest start and the latest end of some ops. docs/proofs/bounds.md has the
/// proof.

#include <span>

#include "graph/lowering.h"
#include "placement/bounds/device_kinds.h"
#include "placement/bounds/route_bound.h"
#include "placement/machine/cost_model.h"
#include "placement/placement.h"

namespace emplace {

/// The largest over sets of ops of least head + work + least tail [ns]. `price` [kinds] as WorkBound::price,
/// or any other with sum(count · price) = 1. O(ops · (kinds + log ops)). Pure; any thread.
double window_bound(const LoweredGraph& lowered, const Constraints& constraints, const DeviceKinds& kinds,
                    const CostTable& costs, const Routes& routes, std::span<const double> price);

}  // namespace emplace

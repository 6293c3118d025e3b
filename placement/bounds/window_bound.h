#pragma once
/// Bounds the step time by the work that must lie between the earliest start and the latest end of a set of
/// ops. The proof is in docs/proofs/bounds.md.

#include <cstdint>
#include <span>

#include "graph/lowering.h"
#include "placement/bounds/device_kinds.h"
#include "placement/bounds/route_bound.h"
#include "placement/machine/cost_model.h"
#include "placement/placement.h"

namespace emplace {

struct WindowBound {
  double ns = 0;  ///< The maximum over sets of ops of least head + work + least tail [ns].
  /// A set that attains it: the ops that, on every kind, start no earlier than `head_ns` and are followed by
  /// at least `tail_ns`.
  std::int64_t head_ns = 0, tail_ns = 0;
};

/// `price` [kinds] is WorkBound::price, or any other prices with sum(count · price) = 1. O(ops · (kinds + log
/// ops)). Pure; any thread.
WindowBound window_bound(const LoweredGraph& lowered, const Constraints& constraints,
                         const DeviceKinds& kinds, const CostTable& costs, const Routes& routes,
                         std::span<const double> price);

}  // namespace emplace

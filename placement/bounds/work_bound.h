#pragma once
/// Bounds the step time by the total work, divided freely over all devices, and by the work that must lie
/// between the earliest start and the latest end of a set of ops. The proofs are in docs/proofs/bounds.md.

#include <cstdint>
#include <span>
#include <vector>

#include "graph/lowering.h"
#include "placement/bounds/device_kinds.h"
#include "placement/bounds/feasibility.h"
#include "placement/bounds/route_bound.h"
#include "placement/machine/cost_model.h"
#include "placement/placement.h"

namespace emplace {

struct WorkBound {
  double work_ns = 0;    ///< Bound by the time of all classes over all devices.
  double memory_ns = 0;  ///< Same bound with state limited by memory; 0 if memory does not bind.
  /// [kinds] Price per device of the best dual solution; sum(count · price) is 1.
  std::vector<double> price;
  /// [kinds] The dual solutions of work_ns and of memory_ns: prices per device, and rents per byte [ns/B].
  std::vector<double> work_price, memory_price, memory_rent;
};

/// Evaluates linear relaxations by their duals: any prices give a valid bound, the best one found is
/// returned.
WorkBound work_bound(const OpGraph& graph, const Constraints& constraints, const DeviceKinds& kinds,
                     const CostTable& costs, std::span<const ClassMemory> memory);

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

#pragma once
/// Bounds the step time by the total work, divided freely over all devices. The proofs are in
/// docs/proofs/bounds.md.

#include <cstdint>
#include <span>
#include <vector>

#include "placement/bounds/device_kinds.h"
#include "placement/bounds/feasibility.h"
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

}  // namespace emplace

#pragma once
/// How much there is to do, divided over all devices at will. docs/proofs/bounds.md has the proofs.

#include <cstdint>
#include <span>
#include <vector>

#include "placement/bounds/device_kinds.h"
#include "placement/bounds/feasibility.h"
#include "placement/machine/cost_model.h"
#include "placement/placement.h"

namespace emplace {

struct WorkBound {
  double work_ns = 0;    ///< All classes, whole, over all devices.
  double memory_ns = 0;  ///< The same with their state in the devices' memory; 0 where that does not bind.
  std::vector<double> price;  ///< [kinds] of a device's time in the best dual found: sum(count · price) is 1.
};

/// Linear relaxations by their duals: any prices are valid, the best found are kept.
WorkBound work_bound(const OpGraph& graph, const Constraints& constraints, const DeviceKinds& kinds,
                     const CostTable& costs, std::span<const ClassMemory> memory);

}  // namespace emplace

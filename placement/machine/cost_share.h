#pragma once
#include <span>

#include "base/ids.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"

namespace emplace {

/// The share of op time in this placement whose cost was measured (in the graph or for the device); 1 if no
/// op takes time. @pre one device per op
double measured_cost_share(const OpGraph& graph, const DeviceSet& devices,
                           std::span<const DeviceId> placement);

}  // namespace emplace

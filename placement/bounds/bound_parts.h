#pragma once
/// The lower bounds of the step time with the values that prove them.

#include <cstdint>

#include "graph/lowering.h"
#include "graph/op_graph.h"
#include "placement/bounds/device_kinds.h"
#include "placement/bounds/lower_bound.h"
#include "placement/bounds/route_bound.h"
#include "placement/bounds/work_bound.h"
#include "placement/machine/cost_model.h"
#include "placement/placement.h"

namespace emplace {

/// `graph` must outlive it. Thread: a plain value.
struct BoundParts {
  LoweredGraph lowered;
  DeviceKinds kinds;
  LowerBound bound;
  std::int64_t path_ns = 0;  ///< LowerBound::path_s, exactly.
  WorkBound work;
  Routes routes;       ///< Empty where there are too many kinds.
  WindowBound window;  ///< 0 where there are too many kinds.
};

/// As lower_bound(), which returns only `bound`. Pure; any thread.
BoundParts bound_parts(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                       const CostTable& costs);

}  // namespace emplace

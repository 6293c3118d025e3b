#pragma once
/// The lower bounds of the step time with the values that prove them.

#include <cstdint>
#include <span>

#include "graph/lowering.h"
#include "graph/op_graph.h"
#include "placement/bounds/device_kinds.h"
#include "placement/bounds/lower_bound.h"
#include "placement/bounds/route_bound.h"
#include "placement/bounds/waiting_bound.h"
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
  WaitingBound waiting;  ///< 0 where nothing is recomputed.
  Routes routes;         ///< Empty where there are too many kinds.
  WindowBound window;    ///< 0 where there are too many kinds.
};

/// The machine that bounds are about. A tensor that is moved may take a faster way than the link between two
/// devices, so that beside `offload` links are as fast as any way over other devices.
DeviceSet machine_of_bounds(const DeviceSet& machine, const Allowed& allowed);

/// As lower_bound(), which returns only `bound`. `runs` [ops]: how often each op runs in a step, at least
/// once; empty: once. Pure; any thread.
BoundParts bound_parts(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                       const CostTable& costs, const Allowed& allowed = {},
                       std::span<const std::uint32_t> runs = {});

}  // namespace emplace

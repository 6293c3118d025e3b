#pragma once
/// Proven lower bounds of the step time: no placement can be faster. docs/bounds.md has the proofs.

#include <cstdint>
#include <string_view>

#include "graph/op_graph.h"
#include "placement/cost_model.h"
#include "placement/placement.h"

namespace emplace {

struct LowerBound {
  double path_s = 0;  ///< Critical path, every op on the fastest device that it may use.
  double work_s = 0;  ///< All ops, divisible at will over all devices (a linear relaxation, from its dual).

  double seconds() const { return path_s > work_s ? path_s : work_s; }
  std::string_view which() const { return path_s > work_s ? "critical path" : "total work"; }
};

/// Holds for the simulator's rules with any memory, any links and any dispatch order. O(ops · device kinds).
LowerBound lower_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                       const CostTable& costs);

}  // namespace emplace

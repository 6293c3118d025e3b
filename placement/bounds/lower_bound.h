#pragma once
/// Proven lower bounds of the step time: no placement that fits can be faster. docs/proofs/bounds.md has the
/// proofs.

#include <string_view>

#include "graph/op_graph.h"
#include "placement/machine/cost_model.h"
#include "placement/placement.h"

namespace emplace {

struct LowerBound {
  double path_s = 0;    ///< Critical path, every op on the fastest device that it may use.
  double work_s = 0;    ///< All ops, divisible at will over all devices (a linear relaxation, from its dual).
  double route_s = 0;   ///< The critical path with its transfers, and with ops in line where they meet.
  double memory_s = 0;  ///< The work with the state in the devices' memory; 0 where that does not bind.
  double window_s = 0;  ///< Some ops' least head, their work and their least tail.

  double seconds() const;
  std::string_view which() const;  ///< Of several that are equal the simplest.
};

/// Holds for the simulator's rules (docs/reference/measurement.md) in any dispatch order. At 25k ops and 9
/// devices well under half a second (docs/results/performance.md). Pure; any thread.
LowerBound lower_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                       const CostTable& costs);

}  // namespace emplace

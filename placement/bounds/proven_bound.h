#pragma once
/// The bound of whatever a placement is judged by. docs/proofs/bounds.md has the proofs.

#include <string_view>

#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/objective.h"
#include "placement/placement.h"

namespace emplace {

/// A lower bound of the objective over all placements [s], and the proof that gives it.
struct ProvenBound {
  double seconds = 0;
  std::string_view which;
};
ProvenBound proven_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                         Objective objective);

}  // namespace emplace

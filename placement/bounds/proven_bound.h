#pragma once
/// The lower bound for any objective. The proofs are in docs/proofs/bounds.md.

#include <string_view>

#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/objective.h"
#include "placement/placement.h"

namespace emplace {

/// A lower bound of the objective over all placements [s], and the name of its proof.
struct ProvenBound {
  double seconds = 0;
  std::string_view which;
};
ProvenBound proven_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                         Objective objective);

}  // namespace emplace

#pragma once
/// Diverse placements, to compare the simulator with a machine.

#include <cstdint>
#include <string>
#include <vector>

#include "executor/executor.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/placement.h"

namespace emplace::launcher {

struct SampledPlacement {
  std::string kind;  ///< "single", "heuristic", "contiguous", "blocks", "random", "neighbour"
  Placement placement;
};

/// Returns `count` distinct placements that obey the constraints, or fewer if the graph has fewer: everything
/// on each device; results of heuristics on `model`; the op order cut into one stretch per device; random
/// stretches of many lengths; every op at random; and neighbours of these, with a stretch moved.
/// Deterministic for a seed.
/// @pre count >= 1
std::vector<SampledPlacement> sample_placements(const OpGraph& graph, const DeviceSet& devices,
                                                const Constraints& constraints, Executor& model,
                                                std::size_t count, std::uint64_t seed);

}  // namespace emplace::launcher

#pragma once
/// Placements of many kinds, to compare a simulator with a machine on.

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

/// `count` placements that obey the constraints, without repeats if the graph has as many: everything on each
/// device; what heuristics find by `model`; cuts of the op order into stretches; random stretches of many
/// lengths; every op at random; and these with a stretch moved. The same seed gives the same ones. @pre count
/// >= 1
std::vector<SampledPlacement> sample_placements(const OpGraph& graph, const DeviceSet& devices,
                                                const Constraints& constraints, Executor& model,
                                                std::size_t count, std::uint64_t seed);

}  // namespace emplace::launcher

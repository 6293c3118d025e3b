#pragma once
/// Placeto's simulator over a graph and a machine, as an executor.

#include <memory>
#include <span>

#include "executor/executor.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"

namespace emplace {

/// Kind "placeto". An op costs what the cost model estimates or was measured (PlacementCosts); links are
/// the paper's (PlacetoOptions), those of the machine are ignored, as are its memory and shared links: every
/// placement is valid, and peaks are zero. Only step times. `graph` and `devices` need not outlive it.
/// Thread: construct anywhere, then one at a time.
std::unique_ptr<Executor> make_placeto_model(const OpGraph& graph, const DeviceSet& devices);

}  // namespace emplace

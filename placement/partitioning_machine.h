#pragma once
/// The machine that a graph brings along, as the workloads of dnn-partitioning do.

#include <optional>

#include "base/result.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/objective.h"

namespace emplace {

/// accel:0, accel:1, … with the workload's memory each, then the CPU: under `latency`, where CPU nodes wait
/// for nobody, one cpu:0 stands for all cores; else cpu:0, cpu:1, … are cores one by one. None if the graph
/// brings no machine (meta.partitioning). Links carry 12 GB/s without latency
/// (graph/formats/published/dnn_partitioning.h). `reserve_share` of each accelerator's memory is kept free.
/// Errors (kInvalid): meta.partitioning is not what the importer writes.
Result<std::optional<DeviceSet>> machine_of(const OpGraph& graph, Objective objective,
                                            double reserve_share = 0);

}  // namespace emplace

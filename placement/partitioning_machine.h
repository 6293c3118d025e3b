#pragma once
/// The machine that a graph file describes, as the workloads of dnn-partitioning do.

#include <optional>

#include "base/result.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/objective.h"

namespace emplace {

/// Returns accel:0, accel:1, … with the workload's memory each, then the CPU. Under `latency`, where CPU
/// nodes run without waiting, one cpu:0 represents all cores; otherwise cpu:0, cpu:1, … are single cores.
/// Returns nothing if the graph has no machine (meta.partitioning). Links have 12 GB/s and no latency
/// (graph/formats/published/dnn_partitioning.h). `reserve` of each accelerator's memory is kept free.
/// Errors (kInvalid): meta.partitioning is malformed.
Result<std::optional<DeviceSet>> machine_of(const OpGraph& graph, Objective objective, Reserve reserve = {});

}  // namespace emplace

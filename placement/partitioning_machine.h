#pragma once
/// The machine that a graph file describes, as the workloads of dnn-partitioning and generated worlds do.

#include <optional>

#include "base/result.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/objective.h"

namespace emplace {

/// Returns the machine of meta.machine, which is a device file or a text of catalogue names; or that of a
/// workload (meta.partitioning): accel:0, accel:1, … with the workload's memory each, then the CPU. Under
/// `latency`, where CPU nodes run without waiting, one cpu:0 represents all cores of a workload; otherwise
/// cpu:0, cpu:1, … are single cores. Links of a workload have 12 GB/s and no latency
/// (graph/formats/partitioning/dnn_partitioning.h). Returns nothing if the graph has no machine. `reserve` of
/// each device's memory (of a workload: of each accelerator's) is kept free; `costs` is the cost version of a
/// text. Errors (kInvalid): the key is malformed.
Result<std::optional<DeviceSet>> machine_of(const OpGraph& graph, Objective objective, Reserve reserve = {},
                                            CostVersion costs = kCurrentCosts);

/// Returns whether the graph is a workload of dnn-partitioning, whose times are in milliseconds.
bool is_workload(const OpGraph& graph);

}  // namespace emplace

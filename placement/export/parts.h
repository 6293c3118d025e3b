#pragma once
/// Divides a placement into parts that run one after the other.

#include <span>
#include <vector>

#include "graph/op_graph.h"
#include "placement/placement.h"

namespace emplace::interop {

/// Ops of one device that run without waiting for another part in between.
struct Part {
  DeviceId device{};
  std::vector<OpId> ops;  ///< In topological order.
};

/// Divides all ops but state into parts, in an order in which each reads only earlier ones: the parts form a
/// DAG also where the ops of a device do not. Each part takes all ops of its device that can run by then; the
/// next device is chosen greedily (earliest remaining ops, lowest topological level, or most ops that can
/// run; the start and the rule with fewest parts win). With two devices in use the number of parts is
/// minimal. O(devices · edges).
std::vector<Part> cut_into_parts(const OpGraph& graph, std::span<const DeviceId> placement);

}  // namespace emplace::interop

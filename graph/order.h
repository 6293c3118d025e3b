#pragma once
/// Orders and paths over an op graph.

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "graph/op_graph.h"

namespace emplace {

/// [ops] Longest distance from a source in edges; 0 for ops without inputs.
std::vector<std::uint32_t> levels(const OpGraph& graph);

/// [ops] Position of each op in a breadth-first walk from all sources together, consumers by increasing id; a
/// permutation. Used as the adjacency features of the Hierarchical Planner.
/// Paper: Hierarchical 2018, section 2.1  [HIE-BFS]
std::vector<std::uint32_t> breadth_first_index(const OpGraph& graph);

/// [ops] Whether `op` can be reached from each op (its ancestors), without `op` itself. O(ops + edges).
std::vector<bool> ancestors(const OpGraph& graph, OpId op);
/// [ops] Whether each op can be reached from `op`, without `op` itself.
std::vector<bool> descendants(const OpGraph& graph, OpId op);

/// The chain of dependent ops of greatest total duration.
struct CriticalPath {
  std::int64_t length_ns = 0;
  std::vector<OpId> ops;  ///< Ops from source to sink.
};
/// `duration_ns` [ops], each >= 0. Edges have no cost.
CriticalPath critical_path(const OpGraph& graph, std::span<const std::int64_t> duration_ns);

}  // namespace emplace

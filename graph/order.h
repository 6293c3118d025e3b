#pragma once
/// Orders and paths over an op graph.

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "graph/op_graph.h"

namespace emplace {

/// Longest distance from a source, counted in edges: [ops], 0 for ops without inputs.
std::vector<std::uint32_t> levels(const OpGraph& graph);

/// Position of each op in a breadth-first walk from all sources at once, consumers by increasing id: [ops], a
/// permutation. The Hierarchical Planner's adjacency features are these.   Paper: Hierarchical 2018,
/// section 2.1  [HIE-BFS]
std::vector<std::uint32_t> breadth_first_index(const OpGraph& graph);

/// True for every op from which `op` can be reached (its ancestors), itself not included: [ops]. O(ops +
/// edges).
std::vector<bool> ancestors(const OpGraph& graph, OpId op);
/// True for every op that can be reached from `op`, itself not included: [ops].
std::vector<bool> descendants(const OpGraph& graph, OpId op);

/// The chain of dependent ops of greatest total duration.
struct CriticalPath {
  std::int64_t length_ns = 0;
  std::vector<OpId> ops;  ///< From source to sink.
};
/// `duration_ns` [ops], each >= 0. Edges cost nothing.
CriticalPath critical_path(const OpGraph& graph, std::span<const std::int64_t> duration_ns);

}  // namespace emplace

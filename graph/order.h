#pragma once
/// Orders and paths over an op graph.

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// [ops] Longest distance from a source in edges; 0 for ops without inputs.
std::vector<std::uint32_t> levels(const OpGraph& graph);

/// [ops] Position of each op in a breadth-first walk from all sources together, consumers by increasing id; a
/// permutation. Used as the adjacency features of the Hierarchical Planner.
/// Paper: Hierarchical 2018, section 2  [HIE-BFS]
std::vector<std::uint32_t> breadth_first_index(const OpGraph& graph);

/// The chain of dependent ops of greatest total duration.
struct CriticalPath {
  std::int64_t length_ns = 0;
  std::vector<OpId> ops;  ///< Ops from source to sink.
};
/// `duration_ns` [ops], each >= 0. Edges have no cost.
CriticalPath critical_path(const OpGraph& graph, std::span<const std::int64_t> duration_ns);

/// An order of a graph: all its ops, each after the ops whose outputs it reads. A device that takes the first
/// of its ready ops in this order takes the one with the lowest id in the renumbered graph.
using OpOrder = std::vector<OpId>;

/// Errors (kInvalid): wrong length; an op that is missing or repeated; an op before one of its inputs.
Result<Unit> check_order(const OpGraph& graph, std::span<const OpId> order);
/// [ops] Position of each op in a permutation of the ops.
std::vector<std::uint32_t> positions(std::span<const OpId> order);
/// The same graph with its ops renumbered: op k of the result is `order[k]` of `graph`. @pre check_order().
OpGraph renumbered(const OpGraph& graph, std::span<const OpId> order);

}  // namespace emplace

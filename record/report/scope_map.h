#pragma once
/// A placed graph collapsed by scope: the drawing of a graph with too many ops to draw each.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/op_graph.h"
#include "placement/machine/cost_model.h"
#include "placement/placement.h"
#include "placement/schedule.h"

namespace emplace::record {

/// The ops of one scope and phase.
struct ScopeNode {
  std::uint32_t scope = 0;  ///< Index into ScopeMap::scopes.
  Phase phase = Phase::kForward;
  std::uint32_t ops = 0;
  /// Mean distance of its ops from a source [edges]; state and views count only if there are no other ops.
  double level = 0;
  std::int64_t resident_bytes = 0;    ///< Bytes of state.
  std::vector<std::int64_t> time_ns;  ///< [devices] Time of its ops where they are placed [ns].
  std::vector<std::uint32_t> ops_on;  ///< [devices] Number of its ops.
};

/// Data produced by ops of one node and read by ops of another.
struct ScopeEdge {
  std::uint32_t source = 0, target = 0;  ///< Indices of nodes.
  std::int64_t bytes = 0;                ///< Bytes; a tensor counts once per reading node.
  std::int64_t cut_bytes = 0;            ///< Part copied over a link; a copy counts at its first reader.
};

struct ScopeMap {
  std::vector<std::string> scopes;  ///< Paths, with '/' between levels.
  std::vector<std::uint32_t> scope_of_op;
  std::vector<ScopeNode> nodes;
  std::vector<ScopeEdge> edges;
};

/// Collapses a graph by the scopes of scope_groups(). A graph without scopes is split into sixteen by
/// sixteen stretches of its topological order ("part 03/07"). If there are more than `max_scopes`, inner
/// levels are dropped; if there are more than `max_edges`, the lightest edges.
ScopeMap scope_map(const OpGraph& graph, const CostTable& costs, std::size_t num_devices,
                   const Placement& placement, const Schedule& schedule, std::size_t max_scopes,
                   std::size_t max_edges);

}  // namespace emplace::record

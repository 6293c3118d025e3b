#pragma once
/// A placed graph collapsed by scope: what is drawn of a graph whose ops are too many to draw.

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
  std::uint32_t scope = 0;  ///< Of ScopeMap::scopes.
  Phase phase = Phase::kForward;
  std::uint32_t ops = 0;
  double level = 0;                 ///< Mean distance of its ops from a source, in edges; state and views do
                                    ///< not count if there are others.
  std::int64_t resident_bytes = 0;  ///< Of state.
  std::vector<std::int64_t> time_ns;  ///< [devices] Of its ops, where they are placed.
  std::vector<std::uint32_t> ops_on;  ///< [devices]
};

/// Data that ops of one node make and ops of another read.
struct ScopeEdge {
  std::uint32_t source = 0, target = 0;  ///< Nodes.
  std::int64_t bytes = 0;                ///< A tensor counts once per reading node.
  std::int64_t cut_bytes = 0;  ///< Of these, copied over a link, counted at the copy's first reader.
};

struct ScopeMap {
  std::vector<std::string> scopes;  ///< Paths, '/' between levels.
  std::vector<std::uint32_t> scope_of_op;
  std::vector<ScopeNode> nodes;
  std::vector<ScopeEdge> edges;
};

/// Scopes as scope_groups() has them; where a graph has none, sixteen by sixteen stretches of its topological
/// order ("part 03/07"). Levels are left out from the inside where there would be more than `max_scopes`, the
/// lightest edges where more than `max_edges`.
ScopeMap scope_map(const OpGraph& graph, const CostTable& costs, std::size_t num_devices,
                   const Placement& placement, const Schedule& schedule, std::size_t max_scopes,
                   std::size_t max_edges);

}  // namespace emplace::record

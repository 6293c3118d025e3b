#pragma once
/// Groups ops that are placed together. Every method keeps declared co-location classes together.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"

namespace emplace {

/// The group of each op; groups are numbered 0 … num_groups − 1 in order of their lowest op. Thread: a plain
/// value.
struct Grouping {
  std::vector<std::uint32_t> group_of_op;  ///< [ops]
  std::size_t num_groups = 0;
  std::vector<std::string> labels;  ///< [groups] Scope of a group; empty if the method has none.
};

/// Uses the graph's `colocate` marks: one group per class; ops without a mark are single.
Grouping colocation_groups(const OpGraph& graph);

/// Assigns each class to one of `wanted` groups at random: the baseline for learned groupings. Paper:
/// Hierarchical 2018, section 3  [HIE-RANDOM]
Grouping random_groups(const OpGraph& graph, std::size_t wanted, std::uint64_t seed);

/// Extends colocation_groups: a group whose outputs go to a single other group joins it; groups then count as
/// ops, until nothing changes.
/// Paper: ColocRL 2017, section 3.3  [COL-GROUP]
Grouping recursive_colocation_groups(const OpGraph& graph);

struct ScopeOptions {
  std::size_t depth = 64;  ///< Levels of the scope that are used; Spotlight uses 2.
  /// Whether to ignore levels such as "t07", so that a group spans all time steps.
  bool share_time_steps = false;
  bool split_phases = false;  ///< Whether to separate forward, backward and update.
};
/// One group per scope. A state op, or an op without a scope, joins its first reader; a class joins its
/// lowest op.
/// Paper: Spotlight 2018, section 5.1  [SPO-GROUP]
Grouping scope_groups(const OpGraph& graph, ScopeOptions options = {});

/// Removes time-step levels from `scope`: "decoder/t07/l0" → "decoder/l0".
std::string without_time_steps(std::string_view scope);

/// Merges the group of least `weight` into the neighbour with which it exchanges the most bytes (the
/// lowest-numbered group if it has no neighbour), until `wanted` groups are left. `weight` [groups], e.g.
/// total op time.
/// Paper: Placeto 2019, section 3.3  [PLA-MERGE]
Grouping merge_small_groups(const OpGraph& graph, const Grouping& grouping, const std::vector<double>& weight,
                            std::size_t wanted);

/// [groups] Sum of `value` [ops] per group.
std::vector<double> sum_by_group(const Grouping& grouping, const std::vector<double>& value);

}  // namespace emplace

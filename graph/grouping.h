#pragma once
/// Ops into groups: what is placed together. Every rule keeps declared co-location classes whole.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"

namespace emplace {

/// Each op's group; groups are numbered 0 … num_groups − 1 in the order of their lowest op. A plain value.
struct Grouping {
  std::vector<std::uint32_t> group_of_op;  ///< [ops]
  std::size_t num_groups = 0;
  std::vector<std::string>
      labels;  ///< [groups] the scope that a group stands for; empty where the rule has none.
};

/// The graph's own `colocate` marks: one group per class, ops without a mark alone.
Grouping colocation_groups(const OpGraph& graph);

/// Each class into one of `wanted` groups by lot: what a learned grouping is held against.
///                                                          Paper: Hierarchical 2018, section 3.3
///                                                          [HIE-RANDOM]
Grouping random_groups(const OpGraph& graph, std::size_t wanted, std::uint64_t seed);

/// The papers' rule on top of the marks: a group whose outputs go to one other group alone joins it; then
/// groups count as ops, until nothing changes.   Paper: ColocRL 2017, section 3.3  [COL-GROUP]
Grouping recursive_colocation_groups(const OpGraph& graph);

struct ScopeOptions {
  std::size_t depth = 64;         ///< Levels of the scope that count; Spotlight uses 2.
  bool share_time_steps = false;  ///< Levels like "t07" do not count: one group over all time steps.
  bool split_phases = false;      ///< Forward, backward and update apart.
};
/// One group per scope. An op without a scope, and every state op, goes with its first reader; a class goes
/// with its lowest op.                                                      Paper: Spotlight 2018,
/// section 4.1  [SPO-GROUP]
Grouping scope_groups(const OpGraph& graph, ScopeOptions options = {});

/// `scope` without its time-step levels: "decoder/t07/l0" → "decoder/l0".
std::string without_time_steps(std::string_view scope);

/// Merges the group of least `weight` into the neighbour with which it exchanges most bytes (the
/// lowest-numbered group where it has none), until `wanted` are left. `weight` [groups], e.g. total op time.
///                                                                   Paper: Placeto 2019, appendix
///                                                                   [PLA-MERGE]
Grouping merge_small_groups(const OpGraph& graph, const Grouping& grouping, const std::vector<double>& weight,
                            std::size_t wanted);

/// Sum of `value` [ops] by group.
std::vector<double> sum_by_group(const Grouping& grouping, const std::vector<double>& value);

}  // namespace emplace

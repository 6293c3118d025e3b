#pragma once
/// A graph whose nodes are groups of ops.

#include <cstdint>
#include <span>
#include <vector>

#include "graph/grouping.h"
#include "graph/op_graph.h"

namespace emplace::policy {

/// Relation of one node to another.
enum class Relation : std::uint8_t { kAncestor, kDescendant, kParallel, kSelf };

/// An edge connects two groups if an op of one reads an op of the other. Arbitrary groups may form cycles:
/// the order then takes the group of the lowest op among the remaining ones, and edges that point backward in
/// the order are dropped. The result is acyclic.
///                                                    Paper: Placeto 2019, section 2  [PLA-GRAPH]
/// Thread: immutable after construction.
class GroupGraph {
 public:
  GroupGraph(const OpGraph& graph, const Grouping& grouping);
  /// `edges`: (source, target) pairs between `size` nodes; duplicates and self-loops are ignored.
  GroupGraph(std::size_t size, std::vector<std::pair<std::uint32_t, std::uint32_t>> edges);

  std::size_t size() const { return order_.size(); }
  std::size_t num_edges() const { return parents_.size(); }
  /// Topological order; the lowest node first among those that are ready. [size]
  std::span<const std::uint32_t> order() const { return order_; }
  /// Neighbours in increasing order.
  std::span<const std::uint32_t> parents(std::uint32_t node) const {
    return {parents_.data() + parent_begin_[node], parent_begin_[node + 1] - parent_begin_[node]};
  }
  std::span<const std::uint32_t> children(std::uint32_t node) const {
    return {children_.data() + child_begin_[node], child_begin_[node + 1] - child_begin_[node]};
  }
  /// Relation of each node to `node`. [size]
  std::span<const Relation> relations(std::uint32_t node) const {
    return {relations_.data() + node * size(), size()};
  }

 private:
  std::vector<std::uint32_t> order_, parent_begin_, parents_, child_begin_, children_;
  std::vector<Relation> relations_;  // [size, size] row-major
};

}  // namespace emplace::policy

#include "policy/group_graph.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"

namespace emplace::policy {
namespace {

using Edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

Edges edges_between(const OpGraph& graph, const Grouping& grouping) {
  EMPLACE_CHECK(grouping.group_of_op.size() == graph.num_ops(), "one group per op");
  Edges edges;
  for (std::uint32_t op = 0; op < graph.num_ops(); ++op) {
    for (const TensorId input : graph.inputs(OpId{op}))
      edges.emplace_back(grouping.group_of_op[index(graph.producer(input))], grouping.group_of_op[op]);
  }
  return edges;
}

/// Builds the CSR rows (targets by source) of edges sorted by (from, to).
void fill_rows(std::size_t size, const Edges& edges, std::vector<std::uint32_t>& begin,
               std::vector<std::uint32_t>& rows) {
  begin.assign(size + 1, 0);
  rows.clear();
  for (const auto& [from, to] : edges) ++begin[from + 1], rows.push_back(to);
  for (std::size_t i = 0; i < size; ++i) begin[i + 1] += begin[i];
}

}  // namespace

GroupGraph::GroupGraph(const OpGraph& graph, const Grouping& grouping)
    : GroupGraph{grouping.num_groups, edges_between(graph, grouping)} {}

GroupGraph::GroupGraph(std::size_t size, Edges edges) {
  std::erase_if(edges, [](const auto& edge) { return edge.first == edge.second; });
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  fill_rows(size, edges, child_begin_, children_);

  // Kahn's algorithm; if no node is ready, cut the cycle at its lowest node.
  std::vector<std::uint32_t> waiting(size, 0);
  for (const auto& [source, target] : edges) ++waiting[target];
  std::set<std::pair<bool, std::uint32_t>> left;  // Ready nodes first.
  for (std::uint32_t node = 0; node < size; ++node) left.emplace(waiting[node] > 0, node);
  while (!left.empty()) {
    const std::uint32_t node = left.begin()->second;
    left.erase(left.begin());
    order_.push_back(node);
    for (const std::uint32_t child : children(node))
      if (--waiting[child] == 0 && left.erase({true, child}) > 0) left.emplace(false, child);
  }
  std::vector<std::uint32_t> position(size);
  for (std::uint32_t i = 0; i < size; ++i) position[order_[i]] = i;
  std::erase_if(edges, [&](const auto& edge) { return position[edge.first] > position[edge.second]; });
  fill_rows(size, edges, child_begin_, children_);
  for (auto& [source, target] : edges) std::swap(source, target);
  std::sort(edges.begin(), edges.end());
  fill_rows(size, edges, parent_begin_, parents_);

  relations_.assign(size * size, Relation::kParallel);
  for (const std::uint32_t node : order_) {
    // The ancestors of a node are its parents and their ancestors; parents precede it in the order.
    for (const std::uint32_t parent : parents(node)) {
      for (std::uint32_t other = 0; other < size; ++other) {
        const bool reaches = other == parent || relations_[parent * size + other] == Relation::kAncestor;
        if (reaches) relations_[node * size + other] = Relation::kAncestor;
      }
    }
    relations_[node * size + node] = Relation::kSelf;
  }
  for (std::size_t node = 0; node < size; ++node) {
    for (std::size_t other = 0; other < size; ++other) {
      if (relations_[node * size + other] == Relation::kAncestor)
        relations_[other * size + node] = Relation::kDescendant;
    }
  }
}

}  // namespace emplace::policy

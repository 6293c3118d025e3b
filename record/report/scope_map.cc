#include "record/report/scope_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "graph/grouping.h"
#include "graph/order.h"

namespace emplace::record {
namespace {

std::string two_digits(std::size_t number) { return fmt::format("{:02}", number); }

/// Stretches of the topological order, in two levels.
Grouping stretches(const OpGraph& graph) {
  constexpr std::size_t kParts = 16;
  const std::size_t n = graph.num_ops();
  Grouping grouping;
  grouping.group_of_op.resize(n);
  grouping.num_groups = std::min(n, kParts * kParts);
  for (std::size_t g = 0; g < grouping.num_groups; ++g)
    grouping.labels.push_back("part " + two_digits(g / kParts + 1) + "/" + two_digits(g % kParts + 1));
  for (std::size_t i = 0; i < n; ++i)
    grouping.group_of_op[index(graph.topological_order()[i])] =
        static_cast<std::uint32_t>(i * grouping.num_groups / n);
  return grouping;
}

Grouping scopes_of(const OpGraph& graph, std::size_t max_scopes) {
  constexpr std::size_t kDeepest = 12;
  const auto small_enough = [&](ScopeOptions options) {
    Grouping grouping = scope_groups(graph, options);
    return grouping.num_groups <= max_scopes ? std::optional{std::move(grouping)} : std::nullopt;
  };
  std::optional<Grouping> found = small_enough({.depth = kDeepest});
  for (std::size_t depth = kDeepest; !found && depth > 0; --depth)
    found = small_enough({.depth = depth, .share_time_steps = true});
  if (!found || (found->num_groups == 1 && graph.num_ops() > 1)) return stretches(graph);
  return *std::move(found);
}

/// The first op on `device`, in issue order, that reads the tensor directly or through a view.
OpId first_reader(const OpGraph& graph, const Placement& placement, TensorId tensor, DeviceId device) {
  OpId first = kNoOp;
  std::vector<TensorId> open{tensor};
  while (!open.empty()) {
    const TensorId at = open.back();
    open.pop_back();
    for (const OpId reader : graph.consumers(at)) {
      if (graph.is_view(reader)) {
        for (std::size_t k = 0; k < graph.num_outputs(reader); ++k) open.push_back(graph.output(reader, k));
      } else if (placement[index(reader)] == device) {
        first = std::min(first, reader);
      }
    }
  }
  return first;
}

std::uint64_t pair_key(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} << 32 | b; }

/// Adds the nodes of the map. Returns the node of each op.
std::vector<std::uint32_t> add_nodes(const OpGraph& graph, const CostTable& costs, std::size_t num_devices,
                                     const Placement& placement, ScopeMap& map) {
  const std::vector<std::uint32_t> level = levels(graph);
  std::map<std::pair<std::uint32_t, Phase>, std::uint32_t> number;
  std::vector<std::uint32_t> node_of(graph.num_ops()), kernels;
  std::vector<double> kernel_level;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    // State is shown with its readers, whatever its phase.
    const auto [it, fresh] = number.try_emplace({map.scope_of_op[i], graph.phase(op)},
                                                static_cast<std::uint32_t>(map.nodes.size()));
    if (fresh) {
      ScopeNode node{map.scope_of_op[i], graph.phase(op)};
      node.time_ns.resize(num_devices), node.ops_on.resize(num_devices);
      map.nodes.push_back(std::move(node));
      kernels.push_back(0), kernel_level.push_back(0);
    }
    node_of[i] = it->second;
    ScopeNode& node = map.nodes[it->second];
    const DeviceId device = placement[i];
    ++node.ops;
    ++node.ops_on[index(device)];
    node.level += level[i];
    if (!graph.is_state(op) && !graph.is_view(op))
      ++kernels[it->second], kernel_level[it->second] += level[i];
    node.time_ns[index(device)] += costs.ns(device, op);
    if (!graph.is_state(op)) continue;
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k)
      node.resident_bytes += graph.bytes(graph.output(op, k));
  }
  for (std::size_t n = 0; n < map.nodes.size(); ++n)
    map.nodes[n].level =
        kernels[n] > 0 ? kernel_level[n] / kernels[n] : map.nodes[n].level / map.nodes[n].ops;
  return node_of;
}

/// Adds the edges between nodes: bytes of tensors, once per reading node, and bytes that were transferred.
void add_edges(const OpGraph& graph, const Placement& placement, const Schedule& schedule,
               std::span<const std::uint32_t> node_of, std::vector<ScopeEdge>& edges) {
  std::unordered_map<std::uint64_t, std::uint32_t> edge_of;
  const auto edge = [&](std::uint32_t from, std::uint32_t to) -> ScopeEdge& {
    const auto [it, fresh] =
        edge_of.try_emplace(pair_key(from, to), static_cast<std::uint32_t>(edges.size()));
    if (fresh) edges.push_back({from, to, 0, 0});
    return edges[it->second];
  };
  std::unordered_set<std::uint64_t> counted;  // (tensor, reading node)
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    for (const TensorId input : graph.inputs(OpId{i})) {
      const std::uint32_t from = node_of[index(graph.producer(input))], to = node_of[i];
      if (from != to && counted.insert(pair_key(static_cast<std::uint32_t>(index(input)), to)).second)
        edge(from, to).bytes += graph.bytes(input);
    }
  }
  for (const TransferRun& run : schedule.transfers) {
    const OpId reader = first_reader(graph, placement, run.tensor, run.target);
    if (reader == kNoOp) continue;
    ScopeEdge& cut = edge(node_of[index(graph.producer(run.tensor))], node_of[index(reader)]);
    cut.cut_bytes += run.bytes;
    // Copies inside a node, or of a part of a tensor, can exceed the counted bytes.
    cut.bytes = std::max(cut.bytes, cut.cut_bytes);
  }
}

/// Keeps the largest edges, sorted by descending bytes.
void keep_largest(std::vector<ScopeEdge>& edges, std::size_t max_edges) {
  std::sort(edges.begin(), edges.end(), [](const ScopeEdge& a, const ScopeEdge& b) {
    return std::tuple{-a.cut_bytes, -a.bytes, a.source, a.target} <
           std::tuple{-b.cut_bytes, -b.bytes, b.source, b.target};
  });
  if (edges.size() > max_edges) edges.resize(max_edges);
}

}  // namespace

ScopeMap scope_map(const OpGraph& graph, const CostTable& costs, std::size_t num_devices,
                   const Placement& placement, const Schedule& schedule, std::size_t max_scopes,
                   std::size_t max_edges) {
  Grouping grouping = scopes_of(graph, max_scopes);
  ScopeMap map;
  map.scopes = std::move(grouping.labels);
  for (std::string& scope : map.scopes)
    if (scope.empty()) scope = "(no scope)";
  map.scope_of_op = std::move(grouping.group_of_op);

  const std::vector<std::uint32_t> node_of = add_nodes(graph, costs, num_devices, placement, map);
  add_edges(graph, placement, schedule, node_of, map.edges);
  keep_largest(map.edges, max_edges);
  return map;
}

}  // namespace emplace::record

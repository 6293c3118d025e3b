#include "solver/exact/block_graph.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace emplace {
namespace {

using Edges = std::vector<std::vector<std::uint32_t>>;

void sort_unique(Edges& edges) {
  for (auto& row : edges) {
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
  }
}

/// Strongly connected components, numbered so that edges lead to lower numbers.
std::vector<std::uint32_t> components(const Edges& after, std::uint32_t& count) {
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS> graph{after.size()};
  for (std::size_t from = 0; from < after.size(); ++from)
    for (const std::uint32_t to : after[from]) boost::add_edge(from, to, graph);
  std::vector<std::uint32_t> component(after.size());
  const auto of_vertex =
      boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, graph));
  count = static_cast<std::uint32_t>(boost::strong_components(graph, of_vertex));
  return component;
}

/// [groups] Dependencies between groups.
Edges group_edges(const Problem& problem, const SplitCosts& costs,
                  const std::vector<std::uint32_t>& group_of_op, std::uint32_t groups, BlockEdges kind) {
  const OpGraph& graph = problem.graph;
  const auto forward = [&](std::uint32_t op) { return graph.phase(OpId{op}) == Phase::kForward; };
  std::vector<bool> has_forward(groups, false);
  for (std::uint32_t op = 0; op < costs.num_ops(); ++op)
    if (costs.counts(op) && forward(op)) has_forward[group_of_op[op]] = true;
  Edges after(groups);
  for (std::uint32_t op = 0; op < costs.num_ops(); ++op) {
    for (const std::uint32_t maker : costs.makers(op)) {
      const std::uint32_t from = group_of_op[maker], to = group_of_op[op];
      if (from == to) continue;
      if (kind == BlockEdges::kAll || (forward(maker) && forward(op))) {
        after[from].push_back(to);
      } else if (!forward(maker) && !forward(op) && (!has_forward[from] || !has_forward[to])) {
        after[to].push_back(from);
      }
    }
  }
  sort_unique(after);
  return after;
}

}  // namespace

Result<SplitMachine> split_machine(const Problem& problem, const SplitCosts& costs) {
  SplitMachine machine;
  DeviceMask accelerators, cpus;
  for (std::size_t d = 0; d < costs.num_devices(); ++d) {
    auto& side = costs.is_accelerator(d) ? machine.accelerators : machine.cpus;
    (costs.is_accelerator(d) ? accelerators : cpus).set(d);
    side.push_back(static_cast<DeviceId>(d));
    const std::size_t first = index(side.front());
    for (std::size_t op = 0; op < costs.num_ops() && first != d; ++op)
      if (costs.time_ps(d, op) != costs.time_ps(first, op))
        return Error{Errc::kNoPlacement,
                     "exact contiguous splits need identical accelerators and identical CPUs"};
    if (costs.is_accelerator(d) && costs.memory_bytes(d) != costs.memory_bytes(first))
      return Error{Errc::kNoPlacement, "exact contiguous splits need accelerators with equal memory"};
  }
  for (std::uint32_t c = 0; c < problem.constraints.num_classes(); ++c) {
    for (const DeviceMask& side : {accelerators, cpus}) {
      const DeviceMask allowed = problem.constraints.allowed(c) & side;
      if (allowed.any() && allowed != side)
        return Error{Errc::kNoPlacement,
                     "exact contiguous splits do not support ops bound to one of several identical devices"};
    }
  }
  if (!machine.accelerators.empty())
    machine.memory_bytes = costs.memory_bytes(index(machine.accelerators.front()));
  machine.cpu_in_turn = !costs.published();
  machine.cpu_memory_bytes = std::numeric_limits<std::int64_t>::max();
  for (const DeviceId cpu : machine.cpus)
    machine.cpu_memory_bytes = std::min(machine.cpu_memory_bytes, costs.cap_bytes(index(cpu)));
  return machine;
}

BlockGraph make_blocks(const Problem& problem, const SplitCosts& costs, const SplitMachine& machine,
                       const std::vector<std::uint32_t>& group_of_op, BlockEdges edges) {
  const std::uint32_t groups = 1 + *std::max_element(group_of_op.begin(), group_of_op.end());
  const Edges after = group_edges(problem, costs, group_of_op, groups, edges);
  std::uint32_t count = 0;
  std::vector<std::uint32_t> block = components(after, count);
  for (std::uint32_t& number : block) number = count - 1 - number;  // Edges now lead to higher numbers.

  BlockGraph graph;
  graph.ops.resize(count), graph.before.resize(count), graph.after.resize(count), graph.nets.resize(count);
  graph.accelerator_ps.resize(count), graph.cpu_ps.resize(count), graph.bytes.resize(count);
  graph.on_accelerator.assign(count, !machine.accelerators.empty());
  graph.on_cpu.assign(count, !machine.cpus.empty());
  for (std::uint32_t group = 0; group < groups; ++group) {
    for (const std::uint32_t next : after[group]) {
      if (block[next] == block[group]) continue;
      graph.after[block[group]].push_back(block[next]);
      graph.before[block[next]].push_back(block[group]);
    }
  }
  sort_unique(graph.after);
  sort_unique(graph.before);
  for (const std::uint32_t op : costs.order()) {
    const std::uint32_t own = block[group_of_op[op]];
    graph.ops[own].push_back(op);
    graph.bytes[own] += costs.bytes(op);
    const auto allows = [&](const std::vector<DeviceId>& side) {
      return !side.empty() && problem.constraints.allows(OpId{op}, side.front());
    };
    graph.on_accelerator[own] = graph.on_accelerator[own] && allows(machine.accelerators);
    graph.on_cpu[own] = graph.on_cpu[own] && allows(machine.cpus);
    if (!costs.counts(op)) continue;
    if (!machine.accelerators.empty())
      graph.accelerator_ps[own] += costs.time_ps(index(machine.accelerators.front()), op);
    if (!machine.cpus.empty()) graph.cpu_ps[own] += costs.time_ps(index(machine.cpus.front()), op);
  }
  // Merge nets with the same producer and the same blocks.
  std::map<std::vector<std::uint32_t>, std::pair<std::int64_t, std::int64_t>> nets;  // Time, kept bytes.
  for (std::uint32_t net = 0; net < costs.num_nets(); ++net) {
    const std::uint32_t maker = block[group_of_op[costs.maker(net)]];
    std::vector<std::uint32_t> ends;
    for (const std::uint32_t reader : costs.readers(net))
      if (block[group_of_op[reader]] != maker) ends.push_back(block[group_of_op[reader]]);
    if (ends.empty() || (costs.net_ps(net) == 0 && costs.kept_bytes(net) == 0)) continue;
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    ends.insert(ends.begin(), maker);
    auto& [ps, kept_bytes] = nets[std::move(ends)];
    ps += costs.net_ps(net);
    kept_bytes += costs.kept_bytes(net);
  }
  for (const auto& [ends, cost] : nets) {
    const auto number = static_cast<std::uint32_t>(graph.all_nets.size());
    for (const std::uint32_t end : ends) graph.nets[end].push_back(number);
    graph.all_nets.push_back({cost.first, cost.second, ends.front(), ends});
  }
  return graph;
}

std::vector<std::uint32_t> random_order(const BlockGraph& graph, Rng& rng, std::uint32_t depth) {
  std::vector<std::size_t> missing;
  std::vector<std::uint32_t> ready, order;
  for (std::uint32_t b = 0; b < graph.size(); ++b) {
    missing.push_back(graph.before[b].size());
    if (missing[b] == 0) ready.push_back(b);
  }
  rng.shuffle(ready);
  while (!ready.empty()) {
    const bool newest = rng.below(8) < depth;
    const std::size_t pick = newest ? ready.size() - 1 : rng.below(static_cast<std::uint32_t>(ready.size()));
    order.push_back(ready[pick]);
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(pick));
    std::vector<std::uint32_t> next = graph.after[order.back()];
    rng.shuffle(next);
    for (const std::uint32_t b : next)
      if (--missing[b] == 0) ready.push_back(b);
  }
  return order;
}

}  // namespace emplace

#include "graph/order.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "graph/derived_graph.h"

namespace emplace {

std::vector<std::uint32_t> levels(const OpGraph& graph) {
  std::vector<std::uint32_t> level(graph.num_ops(), 0);
  for (const OpId op : graph.topological_order()) {
    for (const TensorId input : graph.inputs(op)) {
      level[index(op)] = std::max(level[index(op)], level[index(graph.producer(input))] + 1);
    }
  }
  return level;
}

std::vector<std::uint32_t> breadth_first_index(const OpGraph& graph) {
  constexpr std::uint32_t kUnseen = 0xffffffffu;
  std::vector<std::uint32_t> position(graph.num_ops(), kUnseen);
  std::vector<OpId> walk;
  walk.reserve(graph.num_ops());
  const auto visit = [&](OpId op) {
    if (position[index(op)] != kUnseen) return;
    position[index(op)] = static_cast<std::uint32_t>(walk.size());
    walk.push_back(op);
  };
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    if (graph.inputs(OpId{i}).empty()) visit(OpId{i});
  }
  for (std::size_t head = 0; head < walk.size(); ++head) {
    for (const OpId reader : graph.readers(walk[head])) visit(reader);
  }
  return position;
}

CriticalPath critical_path(const OpGraph& graph, std::span<const std::int64_t> duration_ns) {
  EMPLACE_CHECK(duration_ns.size() == graph.num_ops(), "one duration per op");
  std::vector<std::int64_t> end(graph.num_ops(), 0);
  std::vector<OpId> before(graph.num_ops(), kNoOp);
  OpId last = graph.topological_order().front();
  for (const OpId op : graph.topological_order()) {
    for (const TensorId input : graph.inputs(op)) {
      const OpId producer = graph.producer(input);
      if (before[index(op)] != kNoOp && end[index(producer)] <= end[index(op)]) continue;
      end[index(op)] = end[index(producer)];
      before[index(op)] = producer;
    }
    end[index(op)] += duration_ns[index(op)];
    if (end[index(op)] > end[index(last)]) last = op;
  }
  CriticalPath path{end[index(last)], {}};
  for (OpId op = last; op != kNoOp; op = before[index(op)]) path.ops.push_back(op);
  std::reverse(path.ops.begin(), path.ops.end());
  return path;
}

Result<Unit> check_order(const OpGraph& graph, std::span<const OpId> order) {
  const std::size_t n = graph.num_ops();
  if (order.size() != n)
    return invalid("order", fmt::format("has {} ops, the graph has {}", order.size(), n));
  std::vector<bool> seen(n, false);
  for (const OpId op : order) {
    if (index(op) >= n) return invalid("order", fmt::format("has op {}, which does not exist", index(op)));
    if (seen[index(op)]) return invalid("order", quoted_op(graph, op) + " is repeated");
    for (const TensorId input : graph.inputs(op)) {
      const OpId producer = graph.producer(input);
      if (!seen[index(producer)])
        return invalid("order",
                       quoted_op(graph, op) + " comes before its input " + quoted_op(graph, producer));
    }
    seen[index(op)] = true;
  }
  return Unit{};
}

std::vector<std::uint32_t> positions(std::span<const OpId> order) {
  std::vector<std::uint32_t> position(order.size());
  for (std::uint32_t k = 0; k < order.size(); ++k) position[index(order[k])] = k;
  return position;
}

OpGraph renumbered(const OpGraph& graph, std::span<const OpId> order) {
  const std::vector<std::uint32_t> position = positions(order);
  DerivedGraphBuilder builder{graph};
  std::vector<TensorId> inputs;
  for (const OpId op : order) {
    inputs.clear();
    for (const TensorId input : graph.inputs(op)) {
      const OpId maker = graph.producer(input);
      inputs.push_back(builder.so_far().output(OpId{position[index(maker)]},
                                               index(input) - index(graph.first_output(maker))));
    }
    const OpId other = graph.colocated_with(op);
    builder.colocate(builder.copy(op, inputs), other == kNoOp ? kNoOp : OpId{position[index(other)]});
  }
  return std::move(builder).build();
}

}  // namespace emplace

#include "solver/search/unit_tree.h"

#include <algorithm>
#include <limits>

#include "placement/machine/transfer_table.h"
#include "solver/method.h"
#include "solver/search/walk.h"

namespace emplace {

UnitTree::UnitTree(const Level& level, const Problem& problem)
    : level_{level},
      num_devices_{problem.devices.size()},
      time_s_(level.size() * num_devices_),
      traffic_(level.size()),
      reached_(level.size(), 0),
      place_(level.size()) {
  const OpGraph& graph = problem.graph;
  std::vector<std::uint32_t> unit_of_op(graph.num_ops());
  for (std::uint32_t unit = 0; unit < level.size(); ++unit) {
    traffic_[unit].resize(level.neighbours[unit].size());
    for (const std::uint32_t op : level.ops[unit]) unit_of_op[op] = unit;
    for (std::size_t d = 0; d < num_devices_; ++d) {
      const auto cost_ns = problem.costs.row_ns(static_cast<DeviceId>(d));
      std::int64_t sum_ns = 0;
      for (const std::uint32_t op : level.ops[unit]) sum_ns += cost_ns[op];
      time_s_[unit * num_devices_ + d] = static_cast<double>(sum_ns) * 1e-9;
    }
  }
  std::vector<TensorId> read;
  for (std::uint32_t unit = 0; unit < level.size(); ++unit) {
    read.clear();
    for (const std::uint32_t op : level.ops[unit])
      for (const TensorId input : graph.inputs(OpId{op}))
        if (unit_of_op[index(graph.producer(input))] != unit) read.push_back(input);
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    for (const TensorId tensor : read) {
      const std::uint32_t from = unit_of_op[index(graph.producer(tensor))];
      Traffic& sent = traffic_[from][index_of(from, unit)];
      Traffic& received = traffic_[unit][index_of(unit, from)];
      ++sent.sent, sent.bytes_sent += graph.bytes(tensor);
      ++received.received, received.bytes_received += graph.bytes(tensor);
    }
  }
  const TransferTable transfers{problem.devices};
  for (const DeviceId source : all_devices(problem.devices)) {
    for (const DeviceId target : all_devices(problem.devices)) {
      latency_s_.push_back(transfers.latency_s(source, target));
      s_per_byte_.push_back(transfers.s_per_byte(source, target));
    }
  }
}

std::size_t UnitTree::index_of(std::uint32_t unit, std::uint32_t neighbour) const {
  const auto& near = level_.neighbours[unit];
  return static_cast<std::size_t>(std::lower_bound(near.begin(), near.end(), neighbour) - near.begin());
}

double UnitTree::transfer_s(const Traffic& traffic, std::size_t own, std::size_t other) const {
  const std::size_t out = own * num_devices_ + other, in = other * num_devices_ + own;
  return traffic.sent * latency_s_[out] + static_cast<double>(traffic.bytes_sent) * s_per_byte_[out] +
         traffic.received * latency_s_[in] + static_cast<double>(traffic.bytes_received) * s_per_byte_[in];
}

void UnitTree::grow(Walker& walker, std::uint32_t root, std::size_t most) {
  const auto may_move = [&](std::uint32_t unit) {
    return walker.in_window(unit) && level_.allowed[unit].size() > 1;
  };
  ++trees_;
  nodes_.clear();
  open_.clear();
  if (may_move(root)) open_.push_back({root, 0});
  while (nodes_.size() < most && !open_.empty()) {
    Node& drawn = open_[walker.rng().below(static_cast<std::uint32_t>(open_.size()))];
    const Node node = drawn;
    drawn = open_.back();
    open_.pop_back();
    if (holds(node.unit)) continue;
    reached_[node.unit] = trees_;
    place_[node.unit] = static_cast<std::uint32_t>(nodes_.size());
    for (const std::uint32_t near : level_.neighbours[node.unit])
      if (!holds(near) && may_move(near)) open_.push_back({near, place_[node.unit]});
    nodes_.push_back(node);
  }
}

double UnitTree::own_cost(std::uint32_t node, std::size_t device, std::span<const DeviceId> now, double price,
                          double weight) const {
  const std::uint32_t unit = nodes_[node].unit;
  const auto& near = level_.neighbours[unit];
  double transfers_s = 0;
  for (std::size_t k = 0; k < near.size(); ++k) {
    if (holds(near[k])) {
      const std::uint32_t other = place_[near[k]];
      if (nodes_[node].parent == other || nodes_[other].parent == node) continue;
    }
    transfers_s += transfer_s(traffic_[unit][k], device, index(now[near[k]]));
  }
  return price * time_s(unit, device) + weight * transfers_s;
}

std::span<const DeviceId> UnitTree::choose(std::span<const DeviceId> now, std::span<const double> prices,
                                           double weight) {
  cost_.assign(nodes_.size() * num_devices_, std::numeric_limits<double>::infinity());
  choice_.resize(cost_.size());
  chosen_.resize(nodes_.size());
  for (std::uint32_t at = 0; at < nodes_.size(); ++at)
    for (const DeviceId device : level_.allowed[nodes_[at].unit])
      cost_[at * num_devices_ + index(device)] =
          own_cost(at, index(device), now, prices[index(device)], weight);

  // To the root: each node adds its least cost to that of each device of the parent.
  for (std::size_t at = nodes_.size(); at-- > 1;) {
    const auto [unit, parent] = nodes_[at];
    const std::uint32_t parent_unit = nodes_[parent].unit;
    const Traffic& traffic = traffic_[unit][index_of(unit, parent_unit)];
    for (const DeviceId of_parent : level_.allowed[parent_unit]) {
      double least = std::numeric_limits<double>::infinity();
      for (const DeviceId device : level_.allowed[unit]) {
        const double cost = cost_[at * num_devices_ + index(device)] +
                            weight * transfer_s(traffic, index(device), index(of_parent));
        if (cost >= least) continue;
        least = cost;
        choice_[at * num_devices_ + index(of_parent)] = static_cast<std::uint32_t>(index(device));
      }
      cost_[parent * num_devices_ + index(of_parent)] += least;
    }
  }
  // To the leaves.
  for (std::size_t at = 0; at < nodes_.size(); ++at) {
    if (at == 0) {
      const auto row = cost_.begin();
      const auto least = std::min_element(row, row + static_cast<std::ptrdiff_t>(num_devices_));
      chosen_[at] = static_cast<DeviceId>(least - row);
    } else {
      chosen_[at] = static_cast<DeviceId>(choice_[at * num_devices_ + index(chosen_[nodes_[at].parent])]);
    }
  }
  return chosen_;
}

}  // namespace emplace

#include "solver/partitioners/partition_graph.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "base/statistics.h"
#include "placement/machine/transfer_table.h"

namespace emplace {
namespace {

struct HalfEdge {
  std::uint32_t from, to;
  double bytes, ns;
};

}  // namespace

PartitionGraph::PartitionGraph(const Problem& problem, const LoweredGraph& lowered, const PlacingUnits& units)
    : problem_{problem}, units_{units}, vertex_of_unit_(units.size(), -1) {
  const auto row = problem.costs.row_ns(fast_devices(problem.devices).front());
  for (std::uint32_t i = 0; i < lowered.num_ops(); ++i) {
    const OpId op{i};
    if (!lowered.takes_time(op) && lowered.first_owned(op) == lowered.end_owned(op)) continue;
    const std::uint32_t unit = units.unit_of_op[i];
    if (vertex_of_unit_[unit] < 0) {
      vertex_of_unit_[unit] = static_cast<std::int32_t>(unit_of_vertex_.size());
      unit_of_vertex_.push_back(unit);
      work_ns_.push_back(0);
      bytes_.push_back(0);
    }
    const auto vertex = static_cast<std::size_t>(vertex_of_unit_[unit]);
    if (lowered.takes_time(op)) work_ns_[vertex] += static_cast<double>(row[i]);
    bytes_[vertex] += static_cast<double>(lowered.output_bytes(op) + lowered.resident_bytes(op));
  }

  // A buffer is sent to a unit once, regardless of the number of readers there.
  const TransferLine mean = TransferTable{problem.devices}.mean_line(all_devices(problem.devices));
  std::vector<HalfEdge> edges;
  std::vector<std::uint32_t> seen(size(), 0xffffffffu);
  const auto vertex_of = [&](OpId op) {
    return static_cast<std::uint32_t>(vertex_of_unit_[units.unit_of_op[index(op)]]);
  };
  for (std::uint32_t b = 0; b < lowered.num_buffers(); ++b) {
    const BufferId buffer{b};
    const std::uint32_t from = vertex_of(lowered.owner(buffer));
    const auto sent = static_cast<double>(lowered.bytes(buffer));
    for (const OpId reader : lowered.readers(buffer)) {
      const std::uint32_t to = vertex_of(reader);
      if (to == from || seen[to] == b) continue;
      seen[to] = b;
      const double ns = mean.latency_ns + mean.ns_per_byte * sent;
      edges.push_back({from, to, sent, ns});
      edges.push_back({to, from, sent, ns});
    }
  }
  first_.assign(size() + 1, 0);
  for (const HalfEdge& edge : edges) ++first_[edge.from + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  std::vector<HalfEdge> sorted(edges.size());
  std::vector<std::uint32_t> fill(first_.begin(), first_.end() - 1);
  for (const HalfEdge& edge : edges) sorted[fill[edge.from]++] = edge;
  std::vector<std::uint32_t> merged_first{0};
  for (std::size_t v = 0; v < size(); ++v) {
    const auto begin = sorted.begin() + first_[v], end = sorted.begin() + first_[v + 1];
    std::sort(begin, end, [](const HalfEdge& a, const HalfEdge& b) { return a.to < b.to; });
    for (auto edge = begin; edge != end; ++edge) {
      if (neighbours_.size() > merged_first.back() && neighbours_.back() == edge->to) {
        edge_bytes_.back() += edge->bytes;
        edge_ns_.back() += edge->ns;
      } else {
        neighbours_.push_back(edge->to);
        edge_bytes_.push_back(edge->bytes);
        edge_ns_.push_back(edge->ns);
      }
    }
    merged_first.push_back(static_cast<std::uint32_t>(neighbours_.size()));
  }
  first_ = std::move(merged_first);
}

PartitionTask PartitionGraph::task(std::span<const double> edge_weight) const {
  constexpr double kEdgeTotal = 1e9;
  return {{first_.begin(), first_.end()},
          {neighbours_.begin(), neighbours_.end()},
          scaled(edge_weight, kEdgeTotal),
          {},
          {}};
}

Placement PartitionGraph::placement(const std::vector<std::int32_t>& parts,
                                    const std::vector<DeviceId>& machine) const {
  std::vector<DeviceId> device_of;
  for (const std::int32_t part : parts) device_of.push_back(machine[static_cast<std::size_t>(part)]);
  std::vector<double> exchanged(problem_.devices.size());
  DeviceMask in_machine;
  for (const DeviceId device : machine) in_machine.set(index(device));
  for (std::size_t v = 0; v < size(); ++v) {
    const DeviceMask& allowed = units_.allowed[unit_of_vertex_[v]];
    if (allowed.test(index(device_of[v]))) continue;
    std::fill(exchanged.begin(), exchanged.end(), 0.0);
    for (std::uint32_t e = first_[v]; e < first_[v + 1]; ++e)
      exchanged[index(device_of[neighbours_[e]])] += edge_bytes_[e];
    const DeviceMask choice = (allowed & in_machine).any() ? allowed & in_machine : allowed;
    std::size_t best = problem_.devices.size();
    for (std::size_t d = 0; d < exchanged.size(); ++d)
      if (choice.test(d) && (best == exchanged.size() || exchanged[d] > exchanged[best])) best = d;
    device_of[v] = static_cast<DeviceId>(best);
  }
  const OpGraph& graph = problem_.graph;
  Placement placement(graph.num_ops());
  for (const OpId op : graph.topological_order()) {
    const std::uint32_t unit = units_.unit_of_op[index(op)];
    if (vertex_of_unit_[unit] >= 0) {
      placement[index(op)] = device_of[static_cast<std::size_t>(vertex_of_unit_[unit])];
      continue;
    }
    const DeviceId with =
        graph.inputs(op).empty() ? machine.front() : placement[index(graph.producer(graph.inputs(op)[0]))];
    std::size_t device = index(with);
    for (std::size_t d = 0; !units_.allowed[unit].test(device); ++d) device = d;
    placement[index(op)] = static_cast<DeviceId>(device);
  }
  return placement;
}

std::vector<std::int32_t> scaled(std::span<const double> values, double total, double most) {
  // Clipping reduces the sum and therefore the clipping bound; iterate until both agree.
  double sum = std::accumulate(values.begin(), values.end(), 0.0), cut = sum;
  for (int round = 0; round < 100 && most < 1 && cut > most * sum; ++round) {
    cut = most * sum;
    sum = 0;
    for (const double value : values) sum += std::min(value, cut);
  }
  const double factor = sum > 0 ? total / sum : 0;
  std::vector<std::int32_t> out;
  out.reserve(values.size());
  for (const double value : values)
    out.push_back(static_cast<std::int32_t>(std::max(1.0, std::round(std::min(value, cut) * factor))));
  return out;
}

std::vector<double> shares_by_speed(const Problem& problem, const std::vector<DeviceId>& machine) {
  std::vector<double> speed;
  for (const DeviceId device : machine) {
    const auto row = problem.costs.row_ns(device);
    speed.push_back(
        1.0 / std::max(1.0, static_cast<double>(std::accumulate(row.begin(), row.end(), std::int64_t{0}))));
  }
  return normalised(std::move(speed));
}

std::vector<double> shares_by_memory(const Problem& problem, const std::vector<DeviceId>& machine) {
  std::vector<double> memory;
  for (const DeviceId device : machine)
    memory.push_back(std::max(1.0, static_cast<double>(problem.devices[device].memory_bytes)));
  return normalised(std::move(memory));
}

std::vector<std::int32_t> deal_out(const PartitionTask& task) {
  const auto& weight = task.weight.front();
  const auto& share = task.share.front();
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  std::vector<std::uint32_t> order(weight.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return weight[a] > weight[b]; });
  std::vector<double> room;
  for (const double part : share) room.push_back(part * total);
  std::vector<std::int32_t> parts(weight.size());
  for (const std::uint32_t v : order) {
    const auto most = std::max_element(room.begin(), room.end());
    parts[v] = static_cast<std::int32_t>(most - room.begin());
    *most -= weight[v];
  }
  return parts;
}

}  // namespace emplace

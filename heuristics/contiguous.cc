#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "heuristics/methods.h"

namespace emplace {
namespace {

constexpr int kOffsets = 19;  // Prime: no offset falls on a cut of 2, 4 or 8 equal pieces but the first.

std::vector<std::uint32_t> issue_order(const OpGraph& graph) {
  std::vector<std::uint32_t> order;
  for (const OpId op : graph.topological_order()) order.push_back(static_cast<std::uint32_t>(index(op)));
  return order;
}

/// Scope by scope. Backward ops carry their forward op's scope, so a layer's two passes stay together.
std::vector<std::uint32_t> scope_order(const OpGraph& graph, std::vector<std::uint32_t> order) {
  const Grouping scopes = scope_groups(graph);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return scopes.group_of_op[a] < scopes.group_of_op[b];
  });
  return order;
}

/// Cuts `order` into one piece per device, of the device's share of the cost, after turning it by `offset`
/// (of the whole).
Placement cut(const std::vector<std::uint32_t>& order, const std::vector<double>& cost,
              const std::vector<DeviceId>& devices, const std::vector<double>& share, double offset) {
  const double total = std::max(1.0, std::accumulate(cost.begin(), cost.end(), 0.0));
  Placement placement(order.size());
  double before = 0;
  for (const std::uint32_t op : order) {
    double at = std::fmod(before / total + offset, 1.0);
    std::size_t piece = 0;
    while (piece + 1 < devices.size() && at >= share[piece]) at -= share[piece++];
    placement[op] = devices[piece];
    before += cost[op];
  }
  return placement;
}

std::vector<double> normalised(std::vector<double> values) {
  const double total = std::max(1e-300, std::accumulate(values.begin(), values.end(), 0.0));
  for (double& value : values) value /= total;
  return values;
}

/// How much of the whole each device takes: by its speed on this graph, and by its memory.
std::vector<std::vector<double>> shares(const Problem& problem, const std::vector<DeviceId>& devices) {
  std::vector<double> speed, memory;
  for (const DeviceId device : devices) {
    const auto row = problem.costs.row_ns(device);
    speed.push_back(
        1.0 / std::max(1.0, static_cast<double>(std::accumulate(row.begin(), row.end(), std::int64_t{0}))));
    memory.push_back(static_cast<double>(problem.devices[device].memory_bytes));
  }
  std::vector<std::vector<double>> all{normalised(std::move(speed)), normalised(std::move(memory))};
  const bool alike = std::equal(all[0].begin(), all[0].end(), all[1].begin(),
                                [](double a, double b) { return std::abs(a - b) < 0.01; });
  if (alike) all.pop_back();
  return all;
}

/// Time and bytes (state and results) in equal parts, so that a piece is bounded in both.
std::vector<double> with_bytes(const OpGraph& graph, const std::vector<double>& time) {
  std::vector<double> bytes(graph.num_ops(), 0.0);
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    if (graph.is_view(op)) continue;
    bytes[i] = static_cast<double>(graph.param_bytes(op));
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k)
      bytes[i] += static_cast<double>(graph.bytes(graph.output(op, k)));
  }
  bytes = normalised(std::move(bytes));
  const double total = std::accumulate(time.begin(), time.end(), 0.0);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = bytes[i] * total + time[i];
  return bytes;
}

}  // namespace

Result<Found> Contiguous::find(const Problem& problem, Executor& executor) const {
  const std::vector<std::uint32_t> issue = issue_order(problem.graph);
  const std::array orders{issue, scope_order(problem.graph, issue)};
  const std::vector<double> time = op_weights(problem);
  const std::array costs{time, with_bytes(problem.graph, time)};
  std::vector<std::vector<DeviceId>> machines{fast_devices(problem.devices)};
  if (machines.front().size() < problem.devices.size()) machines.push_back(all_devices(problem.devices));
  Best best{problem, executor};
  const auto offer = [&](const std::vector<DeviceId>& devices,
                         const std::vector<double>& share) -> Result<Unit> {
    for (const auto& order : orders) {
      for (const auto& cost : costs) {
        for (int i = 0; i < kOffsets; ++i) {
          const double offset = static_cast<double>(i) / kOffsets;
          if (auto offered = best.offer(cut(order, cost, devices, share, offset)); !offered) return offered;
        }
      }
    }
    return Unit{};
  };
  for (const auto& devices : machines) {
    for (const auto& share : shares(problem, devices)) {
      if (auto offered = offer(devices, share); !offered) return offered.error();
    }
  }
  return std::move(best).take();
}

}  // namespace emplace

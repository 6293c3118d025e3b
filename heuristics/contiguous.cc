#include <algorithm>
#include <cmath>
#include <numeric>

#include "heuristics/methods.h"

namespace emplace {
namespace {

constexpr int kOffsets = 16;

/// Cuts `order` into one piece per device of equal cost, after turning it by `offset` (a share of the whole cost).
Placement cut(const std::vector<std::uint32_t>& order, const std::vector<double>& cost, const std::vector<DeviceId>& devices, double offset) {
  const double total = std::accumulate(cost.begin(), cost.end(), 0.0);
  Placement placement(order.size());
  double before = 0;
  for (const std::uint32_t op : order) {
    const double share = std::fmod(before / std::max(total, 1.0) + offset, 1.0);
    placement[op] = devices[std::min(devices.size() - 1, static_cast<std::size_t>(share * static_cast<double>(devices.size())))];
    before += cost[op];
  }
  return placement;
}

}  // namespace

Result<Found> Contiguous::find(const Problem& problem, Executor& executor) const {
  const std::vector<double> cost = op_weights(problem);
  const Grouping scopes = scope_groups(problem.graph);  // Backward ops carry their forward op's scope.
  std::vector<std::uint32_t> issue, by_scope;
  for (const OpId op : problem.graph.topological_order()) issue.push_back(static_cast<std::uint32_t>(index(op)));
  by_scope = issue;
  std::stable_sort(by_scope.begin(), by_scope.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return scopes.group_of_op[a] < scopes.group_of_op[b]; });
  Best best{problem, executor};
  for (const auto& order : {issue, by_scope}) {
    for (int i = 0; i < kOffsets; ++i) {
      const double offset = static_cast<double>(i) / kOffsets;
      if (auto offered = best.offer(cut(order, cost, fast_devices(problem.devices), offset)); !offered) return offered.error();
    }
  }
  return std::move(best).take();
}

}  // namespace emplace

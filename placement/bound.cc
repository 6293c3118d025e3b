#include "placement/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "graph/order.h"

namespace emplace {
namespace {

/// Device kinds: devices with one cost row and, for each co-location class, which kinds it may use.
struct Kinds {
  std::vector<DeviceId> example;           // [kinds]
  std::vector<double> count;               // [kinds] devices of that kind
  std::vector<std::vector<bool>> allowed;  // [classes, kinds]
};

Kinds kinds_of(const DeviceSet& devices, const Constraints& constraints, const CostTable& costs) {
  Kinds kinds;
  std::vector<std::size_t> kind_of_row(costs.num_rows(), SIZE_MAX);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    std::size_t& kind = kind_of_row[costs.row_of(static_cast<DeviceId>(d))];
    if (kind == SIZE_MAX) {
      kind = kinds.example.size();
      kinds.example.push_back(static_cast<DeviceId>(d));
      kinds.count.push_back(0);
    }
    ++kinds.count[kind];
  }
  kinds.allowed.assign(constraints.num_classes(), std::vector<bool>(kinds.example.size(), false));
  for (std::uint32_t c = 0; c < constraints.num_classes(); ++c) {
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (constraints.allowed(c).test(d))
        kinds.allowed[c][kind_of_row[costs.row_of(static_cast<DeviceId>(d))]] = true;
    }
  }
  return kinds;
}

/// The cheapest allowed kind at the given prices, and its cost there.
struct Cheapest {
  std::size_t kind = 0;
  double cost = std::numeric_limits<double>::infinity();
};
Cheapest cheapest(const Kinds& kinds, const Constraints& constraints, const CostTable& costs, OpId op,
                  const std::vector<double>& price) {
  Cheapest best;
  const auto& allowed = kinds.allowed[constraints.class_of(op)];
  for (std::size_t k = 0; k < kinds.example.size(); ++k) {
    const double cost = price[k] * static_cast<double>(costs.ns(kinds.example[k], op));
    if (allowed[k] && cost < best.cost) best = {k, cost};
  }
  return best;
}

}  // namespace

LowerBound lower_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                       const CostTable& costs) {
  const Kinds kinds = kinds_of(devices, constraints, costs);
  const std::size_t num_kinds = kinds.example.size();
  const auto n = static_cast<std::uint32_t>(graph.num_ops());

  std::vector<std::int64_t> fastest(n);
  const std::vector<double> equal(num_kinds, 1.0);
  for (std::uint32_t op = 0; op < n; ++op) {
    fastest[op] = static_cast<std::int64_t>(cheapest(kinds, constraints, costs, OpId{op}, equal).cost);
  }
  LowerBound bound;
  bound.path_s = static_cast<double>(critical_path(graph, fastest).length_ns) * 1e-9;

  // For any prices y >= 0 with sum(count · y) = 1 the value below is a bound; multiplicative weights look for
  // the best prices, and the best value seen is kept, so stopping early costs tightness, never truth.
  std::vector<double> price(num_kinds);
  double devices_in_all = 0;
  for (const double count : kinds.count) devices_in_all += count;
  std::fill(price.begin(), price.end(), 1.0 / devices_in_all);
  constexpr int kRounds = 400;
  constexpr double kRounding = 1 - 1e-12;  // The sum of a million doubles may come out this much too large.
  for (int round = 0; round < kRounds; ++round) {
    double value = 0;
    std::vector<double> load(num_kinds, 0.0);  // Per device of the kind, at these prices [ns].
    for (std::uint32_t op = 0; op < n; ++op) {
      const Cheapest best = cheapest(kinds, constraints, costs, OpId{op}, price);
      value += best.cost;
      load[best.kind] +=
          static_cast<double>(costs.ns(kinds.example[best.kind], OpId{op})) / kinds.count[best.kind];
    }
    bound.work_s = std::max(bound.work_s, value * 1e-9 * kRounding);
    const double heaviest = *std::max_element(load.begin(), load.end());
    if (heaviest == 0 || num_kinds == 1) break;
    const double step = 1.0 / std::sqrt(1.0 + round);
    double sum = 0;
    for (std::size_t k = 0; k < num_kinds; ++k) {
      price[k] *= std::exp(step * load[k] / heaviest);
      sum += price[k] * kinds.count[k];
    }
    for (double& p : price) p /= sum;
  }
  return bound;
}

}  // namespace emplace

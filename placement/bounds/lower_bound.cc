#include "placement/bounds/lower_bound.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/check.h"
#include "graph/lowering.h"
#include "graph/order.h"
#include "graph/training/micro_batch.h"
#include "graph/training/passes.h"
#include "placement/bounds/bound_parts.h"
#include "placement/bounds/device_kinds.h"
#include "placement/bounds/feasibility.h"
#include "placement/bounds/route_bound.h"
#include "placement/bounds/split_bound.h"
#include "placement/bounds/work_bound.h"
#include "placement/order.h"

namespace emplace {
namespace {

/// Bounds that are quadratic in the number of kinds are skipped above this number.
constexpr std::size_t kMaxKinds = 16;

/// Bound 1: each op takes at least its least time over the allowed kinds, and the ops of a path run one after
/// another. So the longest path is a lower bound.
std::int64_t longest_path_ns(const OpGraph& graph, const Constraints& constraints, const DeviceKinds& kinds,
                             const CostTable& costs) {
  std::vector<std::int64_t> fastest(graph.num_ops(), DeviceKinds::kNever);
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const auto row = costs.row_ns(kinds.example[k]);
    for (std::uint32_t op = 0; op < fastest.size(); ++op)
      if (kinds.allowed[constraints.class_of(OpId{op})][k]) fastest[op] = std::min(fastest[op], row[op]);
  }
  return critical_path(graph, fastest).length_ns;
}

}  // namespace

double LowerBound::seconds() const {
  return std::max({path_s, work_s, route_s, memory_s, window_s, waiting_s});
}

BoundProof LowerBound::proof() const {
  const std::array<std::pair<double, BoundProof>, 6> all{{{work_s, BoundProof::kWork},
                                                          {path_s, BoundProof::kPath},
                                                          {memory_s, BoundProof::kMemory},
                                                          {route_s, BoundProof::kRoute},
                                                          {window_s, BoundProof::kWindow},
                                                          {waiting_s, BoundProof::kWaiting}}};
  const double best = seconds();
  return std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.first >= best; })->second;
}

DeviceSet machine_of_bounds(const DeviceSet& machine, const Allowed& allowed) {
  return allowed.offload ? machine.with_detours() : machine;
}

BoundParts bound_parts(const OpGraph& graph, const DeviceSet& machine, const Constraints& constraints,
                       const CostTable& costs, const Allowed& allowed, std::span<const std::uint32_t> runs) {
  const DeviceSet devices = machine_of_bounds(machine, allowed);
  BoundParts parts{.lowered = LoweredGraph{graph},
                   .kinds = {},
                   .bound = {},
                   .path_ns = 0,
                   .work = {},
                   .waiting = {},
                   .routes = {},
                   .window = {}};
  const std::vector<ClassMemory> memory = class_memory(parts.lowered, constraints);
  // A class on a device that cannot hold it does not fit, so only fitting devices count in the bounds.
  std::vector<DeviceMask> choices = fitting_devices(devices, constraints, memory);
  for (std::uint32_t c = 0; c < choices.size(); ++c)
    if (choices[c].none()) choices[c] = constraints.allowed(c);  // Nothing fits; must_fit() reports it.
  parts.kinds = device_kinds(devices, choices, costs);
  const DeviceKinds& kinds = parts.kinds;
  LowerBound& bound = parts.bound;
  parts.path_ns = longest_path_ns(graph, constraints, kinds, costs);
  bound.path_s = static_cast<double>(parts.path_ns) * 1e-9;
  // What runs several times is on one path once.
  const CostTable work = runs.empty() ? costs : costs.repeated(runs);
  parts.work = work_bound(graph, constraints, kinds, work, memory);
  bound.work_s = parts.work.work_ns * 1e-9;
  bound.memory_s = parts.work.memory_ns * 1e-9;
  if (allowed.recompute) parts.waiting = waiting_bound(parts.lowered, constraints, kinds, work, parts.work);
  bound.waiting_s = parts.waiting.ns * 1e-9;
  // Routes and windows need the transfer times between all pairs of kinds.
  if (kinds.size() > kMaxKinds) return parts;
  parts.routes = routes(parts.lowered, constraints, kinds, costs);
  bound.route_s = static_cast<double>(parts.routes.longest_ns) * 1e-9;
  parts.window = window_bound(parts.lowered, constraints, kinds, work, parts.routes, parts.work.price);
  bound.window_s = parts.window.ns * 1e-9;
  return parts;
}

LowerBound lower_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                       const CostTable& costs, const Allowed& allowed) {
  return bound_parts(graph, devices, constraints, costs, allowed).bound;
}

ProvenBound proven_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                         Objective objective, const Allowed& allowed) {
  if (objective != Objective::kStepTime) {
    const SplitBound bound = split_bound(SplitCosts{graph, devices}, constraints, objective);
    return {bound.seconds, bound.proof};
  }
  const LowerBound bound = lower_bound(graph, devices, constraints, CostTable{graph, devices}, allowed);
  return {bound.seconds(), bound.proof()};
}

ProvenBound strategy_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                           const Strategy& strategy) {
  const auto bound_with = [&](const OpGraph& step, const Constraints& own,
                              std::span<const std::uint32_t> runs) -> ProvenBound {
    const LowerBound bound = bound_parts(step, devices, own, CostTable{step, devices}, {}, runs).bound;
    return {bound.seconds(), bound.proof()};
  };
  if (strategy.micro_batches <= devices.size()) {
    // There may be a replica for each, none of which adds up micro-batches.
    const TrainingPasses passes{graph};
    std::vector<std::uint32_t> runs;
    for (const bool each : passes.each) runs.push_back(each ? strategy.micro_batches : 1);
    return bound_with(graph, constraints, runs);
  }
  const auto step = micro_batch_graph(graph, strategy.micro_batches);
  EMPLACE_CHECK(step.ok(), "a strategy has a graph that was checked");
  return bound_with(step->graph, derived(constraints, step->graph, devices, step->source), step->runs);
}

}  // namespace emplace

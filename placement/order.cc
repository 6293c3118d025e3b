#include "placement/order.h"

#include <vector>

namespace emplace {
namespace {

/// The values of the sources of the ops, `otherwise` of ops without a source; empty if there are none.
template <class T>
std::vector<T> in_order(const std::vector<T>& values, std::span<const OpId> sources, T otherwise = {}) {
  std::vector<T> out;
  if (values.empty()) return out;
  out.reserve(sources.size());
  for (const OpId op : sources) out.push_back(op == kNoOp ? otherwise : values[index(op)]);
  return out;
}

AppliedRules carried(const AppliedRules& rules, std::span<const OpId> sources, std::span<const OpId> now,
                     const DeviceMask& all) {
  AppliedRules out = rules;
  out.devices = in_order(rules.devices, sources, all);
  out.device_rule = in_order(rules.device_rule, sources, kNoRule);
  out.colocation_rule = in_order(rules.colocation_rule, sources, kNoRule);
  for (AppliedRules::Tie& tie : out.ties) tie = {now[index(tie.op)], now[index(tie.with)], tie.rule};
  return out;
}

}  // namespace

Placement renumbered(const Placement& placement, std::span<const OpId> order) {
  return in_order(placement, order);
}

Placement original(const Placement& placement, std::span<const OpId> order) {
  Placement out(placement.size());
  for (std::size_t k = 0; k < order.size(); ++k) out[index(order[k])] = placement[k];
  return out;
}

AppliedRules renumbered(const AppliedRules& rules, std::span<const OpId> order) {
  std::vector<OpId> now(order.size());
  for (std::uint32_t k = 0; k < order.size(); ++k) now[index(order[k])] = OpId{k};
  return carried(rules, order, now, {});
}

AppliedRules planned(const AppliedRules& rules, const PlannedGraph& plan, const DeviceSet& devices) {
  return carried(rules, plan.source, plan.now, first_devices(devices.size()));
}

Placement planned(const Placement& placement, const PlannedGraph& plan) {
  Placement out = in_order(placement, plan.source);
  for (const auto& [fetch, device] : plan.fetches) out[index(fetch)] = device;
  return out;
}

Placement original(const Placement& placement, const PlannedGraph& plan) {
  return in_order(placement, plan.now);
}

Constraints derived(const Constraints& constraints, const OpGraph& graph, const DeviceSet& devices,
                    std::span<const OpId> sources) {
  // One rule stands for all: it allows each op the devices of its class and ties it to the class's first op.
  AppliedRules rules;
  rules.rules.emplace_back();
  rules.matched = {sources.size()};
  rules.device_rule.assign(sources.size(), 0);
  rules.colocation_rule.assign(sources.size(), 0);
  std::vector<OpId> first(constraints.num_classes(), kNoOp);
  for (std::uint32_t k = 0; k < sources.size(); ++k) {
    if (sources[k] == kNoOp) {
      rules.devices.push_back(first_devices(devices.size()));
      continue;
    }
    const std::uint32_t colocation_class = constraints.class_of(sources[k]);
    rules.devices.push_back(constraints.allowed(colocation_class));
    if (first[colocation_class] == kNoOp) {
      first[colocation_class] = OpId{k};
    } else {
      rules.ties.push_back({OpId{k}, first[colocation_class], 0});
    }
  }
  // Constraints that held before hold for the ops of the other graph.
  return Constraints::make(graph, devices, rules).value();
}

CostTable derived(const CostTable& costs, const OpGraph& graph, std::span<const OpId> sources) {
  std::vector<OpId> timed{sources.begin(), sources.end()};
  for (std::uint32_t k = 0; k < timed.size(); ++k)
    if (graph.is_view(OpId{k})) timed[k] = kNoOp;
  return {costs, timed};
}

}  // namespace emplace

#include "placement/order.h"

#include <vector>

#include "graph/order.h"

namespace emplace {
namespace {

/// The values per op in the order of the renumbered graph; empty if there are none.
template <class T>
std::vector<T> in_order(const std::vector<T>& values, std::span<const OpId> order) {
  std::vector<T> out;
  if (values.empty()) return out;
  out.reserve(order.size());
  for (const OpId op : order) out.push_back(values[index(op)]);
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
  const std::vector<std::uint32_t> position = positions(order);
  AppliedRules out = rules;
  out.devices = in_order(rules.devices, order);
  out.device_rule = in_order(rules.device_rule, order);
  out.colocation_rule = in_order(rules.colocation_rule, order);
  for (AppliedRules::Tie& tie : out.ties)
    tie = {OpId{position[index(tie.op)]}, OpId{position[index(tie.with)]}, tie.rule};
  return out;
}

Constraints renumbered(const Constraints& constraints, const OpGraph& graph, const DeviceSet& devices,
                       std::span<const OpId> order) {
  // One rule stands for all: it allows each op the devices of its class and ties it to the class's first op.
  AppliedRules rules;
  rules.rules.emplace_back();
  rules.matched = {order.size()};
  rules.device_rule.assign(order.size(), 0);
  rules.colocation_rule.assign(order.size(), 0);
  std::vector<OpId> first(constraints.num_classes(), kNoOp);
  for (std::uint32_t k = 0; k < order.size(); ++k) {
    const std::uint32_t colocation_class = constraints.class_of(order[k]);
    rules.devices.push_back(constraints.allowed(colocation_class));
    if (first[colocation_class] == kNoOp) {
      first[colocation_class] = OpId{k};
    } else {
      rules.ties.push_back({OpId{k}, first[colocation_class], 0});
    }
  }
  // Constraints that held before hold for the renumbered ops.
  return Constraints::make(graph, devices, rules).value();
}

}  // namespace emplace

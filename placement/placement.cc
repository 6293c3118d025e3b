#include "placement/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <unordered_map>

#include "base/text/words.h"
#include "placement/machine/cost_model.h"

namespace emplace {
namespace {

/// Finds one device, or with a prefix like "cpu:*" all devices whose names start with it, with or without the
/// host of a cluster ("host0/cpu:0").
Result<DeviceMask> devices_named(const DeviceSet& devices, std::string_view name) {
  if (name.ends_with('*')) {
    const std::string_view prefix = name.substr(0, name.size() - 1);
    DeviceMask mask = devices.starting_with(prefix);
    for (std::size_t d = 0; d < devices.size(); ++d) {
      const std::string_view full = devices[DeviceId{static_cast<std::uint8_t>(d)}].name;
      if (full.substr(full.rfind('/') + 1).starts_with(prefix)) mask.set(d);
    }
    if (mask.none())
      return invalid("device '" + printable(name, 60) + "'", "matches no device of this machine");
    return mask;
  }
  EMPLACE_TRY_ASSIGN(const auto device, devices.find(name));
  return DeviceMask{}.set(index(device));
}

/// The devices that the graph and the rules allow for an op, ignoring its class.
Result<DeviceMask> own_devices(const OpGraph& graph, const DeviceSet& devices, const AppliedRules& rules,
                               OpId op) {
  DeviceMask mask = first_devices(devices.size());
  if (graph.has_allowed_devices(op)) {
    mask.reset();
    for (const std::string& name : graph.allowed_devices(op)) {
      const auto named = devices_named(devices, name);
      if (!named) return invalid(quoted_op(graph, op), named.error().context);
      mask |= *named;
    }
  }
  return rules.empty() ? mask : mask & rules.devices[index(op)];
}

/// The source of an op's devices: "rules.toml:7 (pin = …)", or the graph.
std::string decider(const AppliedRules& rules, OpId op) {
  const std::uint32_t rule = rules.empty() ? kNoRule : rules.device_rule[index(op)];
  return rule == kNoRule ? "the graph's devices" : rules.rules[rule].described();
}

Error against_the_graph(const OpGraph& graph, const AppliedRules& rules, OpId op) {
  return invalid(quoted_op(graph, op), decider(rules, op) + " contradicts the devices that the graph allows",
                 "change one of them");
}

/// Reports that adding `last` left its class without a device. Names it and an earlier op that it conflicts
/// with.
Error no_common_device(const OpGraph& graph, const DeviceSet& devices, const AppliedRules& rules,
                       std::span<const std::uint32_t> class_of, OpId last) {
  const DeviceMask wanted = own_devices(graph, devices, rules, last).value();
  OpId other = kNoOp;
  for (std::uint32_t i = 0; i < index(last); ++i) {
    if (class_of[i] != class_of[index(last)]) continue;
    const DeviceMask mask = own_devices(graph, devices, rules, OpId{i}).value();
    if (mask.count() == devices.size()) continue;
    other = OpId{i};
    if ((mask & wanted).none()) break;
  }
  std::string tie = "the graph's colocate";
  for (const OpId op : {last, other}) {
    if (rules.empty() || rules.colocation_rule[index(op)] == kNoRule) continue;
    tie = rules.rules[rules.colocation_rule[index(op)]].described();
    break;
  }
  return invalid(quoted_op(graph, last),
                 "no device is allowed to all ops it is colocated with: " + decider(rules, last) +
                     " contradicts " + decider(rules, other) + " on " + quoted_op(graph, other) +
                     ", tied by " + tie,
                 "change one of them");
}

}  // namespace

Result<Constraints> Constraints::make(const OpGraph& graph, const DeviceSet& devices,
                                      const AppliedRules& rules, bool by_bytes) {
  const std::size_t n = graph.num_ops();
  // Union-find over `colocate` and ties. The lowest op leads, so classes are numbered in order of their
  // leaders.
  std::vector<std::uint32_t> parent(n);
  std::iota(parent.begin(), parent.end(), 0u);
  const auto root = [&](std::uint32_t op) {
    while (parent[op] != op) op = parent[op] = parent[parent[op]];
    return op;
  };
  const auto join = [&](OpId one, OpId other) {
    const std::uint32_t a = root(static_cast<std::uint32_t>(index(one))),
                        b = root(static_cast<std::uint32_t>(index(other)));
    parent[std::max(a, b)] = std::min(a, b);
  };
  for (std::uint32_t op = 0; op < n; ++op) {
    if (graph.colocated_with(OpId{op}) != kNoOp) join(OpId{op}, graph.colocated_with(OpId{op}));
  }
  for (const AppliedRules::Tie& tie : rules.ties) join(tie.op, tie.with);
  Constraints constraints;
  constraints.class_of_.resize(n);
  for (std::uint32_t op = 0; op < n; ++op) {
    const std::uint32_t leader = root(op);
    if (leader == op) {
      constraints.class_of_[op] = static_cast<std::uint32_t>(constraints.allowed_.size());
      constraints.allowed_.push_back(first_devices(devices.size()));
    } else {
      // The leader has a lower number and is done.
      constraints.class_of_[op] = constraints.class_of_[leader];
    }
    EMPLACE_TRY_ASSIGN(const auto mask, own_devices(graph, devices, rules, OpId{op}));
    if (mask.none()) return against_the_graph(graph, rules, OpId{op});
    DeviceMask& allowed = constraints.allowed_[constraints.class_of_[op]];
    allowed &= mask;
    if (allowed.none()) return no_common_device(graph, devices, rules, constraints.class_of_, OpId{op});
  }
  if (!by_bytes) constraints.keep_to(timed_devices(graph, devices), graph, rules);
  return constraints;
}

void Constraints::keep_to(const std::vector<DeviceMask>& timed, const OpGraph& graph,
                          const AppliedRules& rules) {
  std::vector<DeviceMask> kept = allowed_;
  for (std::size_t op = 0; op < timed.size(); ++op) {
    DeviceMask& mask = kept[class_of_[op]];
    mask &= timed[op];
    const std::uint32_t rule = rules.empty() ? kNoRule : rules.device_rule[op];
    const bool named = graph.has_allowed_devices(OpId{static_cast<std::uint32_t>(op)}) ||
                       (rule != kNoRule && rules.rules[rule].kind != RuleKind::kForbid);
    if (named) mask.reset();
  }
  for (std::size_t c = 0; c < kept.size(); ++c)
    if (kept[c].any()) allowed_[c] = kept[c];
}

std::string timing_note(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints) {
  DeviceMask off, by_bytes;
  std::set<std::string> kinds;
  std::size_t ops = 0;
  const std::vector<DeviceMask> timed = timed_devices(graph, devices);
  for (std::uint32_t op = 0; op < timed.size(); ++op) {
    const DeviceMask other = first_devices(devices.size()) & ~timed[op];
    const DeviceMask& allowed = constraints.allowed(constraints.class_of(OpId{op}));
    for (std::size_t c = 0; other.any() && c < graph.measured_classes().size(); ++c)
      if (!std::isnan(graph.measured_us(OpId{op}, c))) kinds.insert(graph.measured_classes()[c]);
    ops += other.any() ? 1 : 0;
    off |= other & ~allowed;
    by_bytes |= other & allowed;
  }
  if (ops == 0) return {};
  const auto names = [&](const DeviceMask& mask) {
    std::string text;
    for (std::size_t d = 0; d < devices.size(); ++d)
      if (mask.test(d))
        text.append(text.empty() ? "" : ", ").append(printable(devices[static_cast<DeviceId>(d)].name, 40));
    return text;
  };
  std::string text =
      fmt::format("{} ops have times measured on {} and unknown work", ops, fmt::join(kinds, ", "));
  if (off.any())
    text += fmt::format(": they stay off {}, unless a rule allows it (docs/guide/rules.md)", names(off));
  if (by_bytes.any())
    text += fmt::format("{} on {} their time is estimated from the bytes that they move",
                        off.any() ? ";" : ":", names(by_bytes));
  return text;
}

std::size_t Constraints::repair(Placement& placement) const {
  EMPLACE_CHECK(placement.size() == class_of_.size(), "one device per op");
  constexpr std::uint16_t kUnset = 0xffff;
  std::vector<std::uint16_t> device_of(allowed_.size(), kUnset);
  std::size_t moved = 0;
  for (std::size_t op = 0; op < placement.size(); ++op) {
    std::uint16_t& device = device_of[class_of_[op]];
    if (device == kUnset) {
      const DeviceMask& mask = allowed_[class_of_[op]];
      device = static_cast<std::uint16_t>(mask.test(index(placement[op])) ? index(placement[op])
                                                                          : mask._Find_first());
    }
    if (index(placement[op]) == device) continue;
    placement[op] = static_cast<DeviceId>(device);
    ++moved;
  }
  return moved;
}

Result<Constraints> Constraints::part(std::span<const DeviceId> devices) const {
  Constraints own;
  own.class_of_ = class_of_;
  for (const DeviceMask& mask : allowed_) {
    DeviceMask& of_part = own.allowed_.emplace_back();
    for (std::size_t k = 0; k < devices.size(); ++k) of_part.set(k, mask.test(index(devices[k])));
    if (of_part.none()) return invalid("an op", "may run on no device of a replica", "change its rules");
  }
  return own;
}

Result<Unit> Constraints::check(const OpGraph& graph, const DeviceSet& devices,
                                std::span<const DeviceId> placement) const {
  if (placement.size() != class_of_.size()) {
    return invalid("placement",
                   fmt::format("has {} ops, the graph has {}", placement.size(), class_of_.size()));
  }
  std::vector<OpId> first(allowed_.size(), kNoOp);
  for (std::uint32_t i = 0; i < placement.size(); ++i) {
    const OpId op{i};
    if (index(placement[i]) >= devices.size())
      return invalid(quoted_op(graph, op), "its device does not exist");
    const std::uint32_t colocation_class = class_of_[i];
    if (!allowed_[colocation_class].test(index(placement[i]))) {
      return invalid(quoted_op(graph, op), "may not run on " + printable(devices[placement[i]].name, 60));
    }
    OpId& leader = first[colocation_class];
    if (leader == kNoOp) leader = op;
    if (placement[index(leader)] != placement[i]) {
      return invalid(quoted_op(graph, op), "must share a device with " + quoted_op(graph, leader));
    }
  }
  return Unit{};
}

std::vector<OpId> class_leaders(const Constraints& constraints) {
  std::vector<OpId> leaders(constraints.num_classes(), kNoOp);
  const auto classes = constraints.classes();
  for (std::uint32_t op = 0; op < classes.size(); ++op) {
    if (leaders[classes[op]] == kNoOp) leaders[classes[op]] = OpId{op};
  }
  return leaders;
}

}  // namespace emplace

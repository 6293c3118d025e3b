#pragma once
/// Rules resolved against one graph and one machine: the ops that each rule matches, and the resulting
/// constraints.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/machine/device_mask.h"
#include "placement/rules.h"

namespace emplace {

inline constexpr std::uint32_t kNoRule = 0xffffffffu;

/// The result of apply_rules; vectors are empty if no rule was given. Thread: a plain value.
struct AppliedRules {
  /// Two ops that must share a device, and the rule that requires it.
  struct Tie {
    OpId op{}, with{};
    std::uint32_t rule = 0;
  };

  std::vector<Rule> rules;
  std::vector<std::size_t> matched;  ///< [rules] Number of ops that each rule matches.
  std::vector<DeviceMask> devices;   ///< [ops] Devices that the rules allow for each op.
  /// [ops] Deciding rule: the pin, else the first allow or forbid; or kNoRule.
  std::vector<std::uint32_t> device_rule;
  std::vector<std::uint32_t> colocation_rule;  ///< [ops] First rule that ties the op to others; or kNoRule.
  std::vector<Tie> ties;

  bool empty() const { return rules.empty(); }
  /// Formats one line per rule: "rules.toml:7 (pin = "gpu:0") matches 12 ops".
  std::vector<std::string> lines() const;
};

/// Every rule applies to all ops that it matches, with one exception: where an earlier rule matches a proper
/// subset of a later rule's ops, only the earlier rule applies to them (docs/guide/rules.md). O(rules · (ops
/// + rules)). Errors (kInvalid), each naming the rules: a rule that matches nothing and is not optional (with
/// the nearest name, type or scope); two rules that leave an op without a device; an unknown device; a prefix
/// that matches no device.
Result<AppliedRules> apply_rules(const OpGraph& graph, const DeviceSet& devices, const RuleSet& rules);

}  // namespace emplace

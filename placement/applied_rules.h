#pragma once
/// Rules resolved against one graph and one machine: which ops each matches, and what follows for them.

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

/// A plain value; empty vectors mean that no rule was given.
struct AppliedRules {
  /// Two ops that must share a device, and the rule that says so.
  struct Tie {
    OpId op{}, with{};
    std::uint32_t rule = 0;
  };

  std::vector<Rule> rules;
  std::vector<std::size_t> matched;  ///< [rules] ops that each matches.
  std::vector<DeviceMask> devices;   ///< [ops] what the rules leave to each op.
  std::vector<std::uint32_t>
      device_rule;  ///< [ops] the pin, else the first allow, that decided it; or kNoRule.
  std::vector<std::uint32_t> colocation_rule;  ///< [ops] the first rule that ties it to others; or kNoRule.
  std::vector<Tie> ties;

  bool empty() const { return rules.empty(); }
  /// "rules.toml:7 (pin = "gpu:0") matches 12 ops", one per rule.
  std::vector<std::string> lines() const;
};

/// Every rule that matches an op holds for it, but an earlier rule that matches only some of a later one's
/// ops is an exception to it: there the earlier holds alone. docs/guide/rules.md. O(rules · (ops + rules)).
/// Errors (kInvalid), each naming the rules: one that matches nothing and is not optional (with the nearest
/// name, type or scope); two that leave an op no device; an unknown device; a prefix that no device has.
Result<AppliedRules> apply_rules(const OpGraph& graph, const DeviceSet& devices, const RuleSet& rules);

}  // namespace emplace

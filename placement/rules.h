#pragma once
/// User rules: where ops may run and which ops stay together, by patterns on ops. docs/guide/rules.md.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "placement/op_pattern.h"

namespace emplace {

/// The constraint that a rule puts on its ops.
enum class RuleKind : std::uint8_t {
  kPin,           ///< One device.
  kAllow,         ///< Any of some devices, by name or by prefix ("gpu:*").
  kForbid,        ///< Any but some devices, by name or by prefix.
  kColocate,      ///< All ops of one label share a device.
  kColocateWith,  ///< Each op shares the device of the op that it belongs to.
};

/// One [[rule]] of a rule file.
struct Rule {
  std::string where;  ///< File and line: "rules.toml:7".
  OpPattern match;
  RuleKind kind = RuleKind::kPin;
  std::vector<std::string> devices;  ///< One name for kPin; names and prefixes for kAllow and kForbid.
  std::string label;                 ///< Label for kColocate; "forward" or "input" for kColocateWith.
  bool optional = false;             ///< Whether the rule may match nothing.

  /// Formats `rules.toml:7 (pin = "gpu:0")` for messages and tables.
  std::string described() const;
};

struct RuleSet {
  std::vector<Rule> rules;
};

/// Errors: kIo; kInvalid with file and line: an unknown key (with the nearest known one), a rule without a
/// pattern, with none or several of pin, allow, forbid, colocate and colocate_with, an invalid regular
/// expression, no rule.
Result<RuleSet> load_rules(const std::filesystem::path& path);
/// The same for a text. For tests: rules without a file.
Result<RuleSet> parse_rules(std::string_view toml, std::string_view where);

}  // namespace emplace

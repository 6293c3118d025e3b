#pragma once
/// Rules of a user's: what may run where and what stays together, by patterns on ops. docs/guide/rules.md.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "placement/op_pattern.h"

namespace emplace {

/// What a rule asks of the ops it matches.
enum class RuleKind : std::uint8_t {
  kPin,           ///< One device.
  kAllow,         ///< Any of some devices, by name or by prefix ("gpu:*").
  kColocate,      ///< All ops of one label share a device.
  kColocateWith,  ///< Each shares the device of the op it belongs to.
};

/// One [[rule]].
struct Rule {
  std::string where;  ///< "rules.toml:7"
  OpPattern match;
  RuleKind kind = RuleKind::kPin;
  std::vector<std::string> devices;  ///< Of kPin one name, of kAllow names and prefixes.
  std::string label;                 ///< Of kColocate; of kColocateWith "forward" or "input".
  bool optional = false;             ///< May match nothing.

  /// `rules.toml:7 (pin = "gpu:0")`: how messages and tables name it.
  std::string described() const;
};

struct RuleSet {
  std::vector<Rule> rules;
};

/// Errors: kIo; kInvalid with file and line: an unknown key (the nearest is named), a rule without a pattern,
/// with none or several of pin, allow, colocate and colocate_with, a pattern that is no regular expression,
/// no rule.
Result<RuleSet> load_rules(const std::filesystem::path& path);
Result<RuleSet> parse_rules(std::string_view toml, std::string_view where);

}  // namespace emplace

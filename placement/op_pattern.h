#pragma once
/// Selects ops by regular expressions on name, type, scope, phase and device.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// RE2 expressions with search semantics, like grep. An op must match all of them; an empty one matches
/// everything.
struct OpPattern {
  std::string name, type, scope, phase;
  std::string device;  ///< Matches the device requested in the op's file (attrs.device), "" if none.

  bool operator==(const OpPattern&) const = default;
  bool empty() const { return *this == OpPattern{}; }
  /// Formats "name = '^encoder/', type = 'MatMul'".
  std::string text() const;
};

/// The expressions, by their keys in a rule.
inline constexpr std::pair<std::string_view, std::string OpPattern::*> kPatternKeys[]{
    {"name", &OpPattern::name},
    {"type", &OpPattern::type},
    {"scope", &OpPattern::scope},
    {"phase", &OpPattern::phase},
    {"device", &OpPattern::device}};

/// Errors: kInvalid if it is not a regular expression.
Result<Unit> check_expression(const std::string& expression);

/// [ops] @pre every expression is valid. O(ops · longest name).
std::vector<bool> ops_matching(const OpGraph& graph, const OpPattern& pattern);

/// A hint why a pattern matches nothing: "the nearest is 'encoder/'", from names, types or scopes.
std::string nearest_to(const OpGraph& graph, const OpPattern& pattern);

}  // namespace emplace

#pragma once
/// Ops by regular expressions on what they are called.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// RE2 expressions, searched for as grep does; an empty one matches everything, and all must match.
struct OpPattern {
  std::string name, type, scope, phase;
  std::string device;  ///< Of the device that the op's file asks for (attrs.device); none asks for "".

  bool empty() const {
    return name.empty() && type.empty() && scope.empty() && phase.empty() && device.empty();
  }
  /// "name = '^encoder/', type = 'MatMul'".
  std::string text() const;
};

/// Errors: kInvalid if it is no regular expression.
Result<Unit> check_expression(const std::string& expression);

/// [ops] @pre every expression is one. O(ops · longest name).
std::vector<bool> ops_matching(const OpGraph& graph, const OpPattern& pattern);

/// Why a pattern may match nothing: "the nearest is 'encoder/'", of names, types or scopes.
std::string nearest_to(const OpGraph& graph, const OpPattern& pattern);

}  // namespace emplace

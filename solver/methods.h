#pragma once
/// Every placement method without learning, by its name on the command line.

#include <span>
#include <string_view>

#include "base/result.h"
#include "solver/method.h"

namespace emplace {

/// Methods that return within a second or two, in the order of the comparison table.
std::span<const Method* const> all_methods();
/// Search methods, which use their whole budget; they run only if requested by name.
std::span<const Method* const> search_methods();
/// Methods that transform the graph, for comparison.
std::span<const Method* const> transforming_methods();
/// Finds a method that returns placements. Errors (kInvalid): unknown name, with the nearest one; or a method
/// that transforms the graph.
Result<const Method*> find_method(std::string_view name);
/// Finds any method, for a comparison. Errors (kInvalid): unknown name, with the nearest one.
Result<const Method*> find_compared_method(std::string_view name);

}  // namespace emplace

#pragma once
/// Every placement method without learning, by its name on the command line.

#include <initializer_list>
#include <span>
#include <string_view>

#include "base/result.h"
#include "solver/method.h"

namespace emplace {

/// Methods that return within a second or two, in the order of the comparison table.
std::span<const Method* const> all_methods();
/// Search methods, which use their whole budget; they run only if requested by name.
std::span<const Method* const> search_methods();
/// Methods that transform the graph, for comparison: those that were added.
std::span<const Method* const> transforming_methods();
/// Adds methods that transform the graph; they must outlive every use. Thread: the main one, before any use.
void add_transforming_methods(std::initializer_list<const Method*> methods);
/// Finds a method that returns placements. Errors (kInvalid): those of find_compared_method(); a method that
/// transforms the graph.
Result<const Method*> find_method(std::string_view name);
/// Finds any method, for a comparison. Errors (kInvalid): unknown name, with the nearest one; a name that is
/// not in this build.
Result<const Method*> find_compared_method(std::string_view name);

}  // namespace emplace

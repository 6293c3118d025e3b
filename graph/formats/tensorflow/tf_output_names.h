#pragma once
/// Resolves outputs by name, as function bodies refer to them: "node:output_name:k" is output first_output +
/// k.

#include <cstdint>
#include <string_view>

namespace emplace::tf {

class NodeDef;

/// The position of output `output_name` among all outputs of the node; 0 for a type with one output, or an
/// unknown type. Pure; any thread.
std::uint32_t first_output(const NodeDef& node, std::string_view output_name);

/// The length of a list output, which `attribute` contains as a number or as a list of types; 0 if the
/// attribute is missing, at most 2^20.
std::uint32_t list_length(const NodeDef& node, std::string_view attribute);

}  // namespace emplace::tf

#pragma once
/// Outputs by name, as function bodies call them: "node:output_name:k" is output first_output + k.

#include <cstdint>
#include <string_view>

namespace emplace::tf {

class NodeDef;

/// Position of the output `output_name` among all of the node's; 0 of a type that has one output, or that is
/// unknown. Pure; any thread.
std::uint32_t first_output(const NodeDef& node, std::string_view output_name);

/// How long a list is whose length `attribute` says, as a number or as a list of types; 0 without it, at most
/// 2^20.
std::uint32_t list_length(const NodeDef& node, std::string_view attribute);

}  // namespace emplace::tf

#pragma once
/// Published workloads that are one JSON object, identified by a key.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "base/result.h"

namespace emplace {

/// Returns whether the bytes start like a JSON object, contain `key` (in quotes) within the first `within`
/// bytes, and are not an emplace-graph.
bool looks_like_json_with(std::span<const std::byte> bytes, std::string_view key,
                          std::size_t within = std::string_view::npos);

/// Errors (kInvalid): not JSON, or not an object.
Result<nlohmann::json> parse_json_object(std::span<const std::byte> bytes, std::string_view where);

}  // namespace emplace

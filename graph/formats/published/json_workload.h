#pragma once
/// Workloads of others that are one JSON object, told apart by a key.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "base/result.h"

namespace emplace {

/// True if the bytes begin as a JSON object, hold `key` (in quotes) within the first `within` bytes, and are
/// no emplace-graph.
bool looks_like_json_with(std::span<const std::byte> bytes, std::string_view key,
                          std::size_t within = std::string_view::npos);

/// Errors (kInvalid): no JSON, or no object.
Result<nlohmann::json> parse_json_object(std::span<const std::byte> bytes, std::string_view where);

}  // namespace emplace

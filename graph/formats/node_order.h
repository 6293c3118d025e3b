#pragma once
/// The order of a file's nodes as ops.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace emplace {

/// A topological order of nodes 0 to n-1 under edges (producer, reader): of those whose inputs are there the
/// first comes next. Nothing if the edges have a circle. Cost: O((n + edges) log n).
std::optional<std::vector<std::uint32_t>> node_order(
    std::size_t n, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges);

}  // namespace emplace

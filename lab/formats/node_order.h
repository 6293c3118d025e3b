#pragma once
/// Orders a file's nodes topologically.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace emplace {

/// A topological order of nodes 0 to n-1 under edges (producer, reader): the lowest ready node comes next.
/// Returns nothing if the edges have a cycle. O((n + edges) log n).
std::optional<std::vector<std::uint32_t>> node_order(
    std::size_t n, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges);

}  // namespace emplace

#pragma once
/// Replaces dense control dependencies, many nodes waiting for the same many nodes, by joins.

#include <cstdint>
#include <vector>

namespace emplace::tf {

/// [nodes] The nodes that each node waits for, sorted, without duplicates.
using Waits = std::vector<std::vector<std::uint32_t>>;

struct Joins {
  Waits direct;     ///< [nodes] Nodes that a node still waits for directly.
  Waits by_node;    ///< [nodes] Joins that a node waits for.
  Waits producers;  ///< [joins] Nodes that a join waits for.
};

/// Where every node of one set waits for every node of another, and it saves at least 32 edges, both are
/// connected through a join: the edge count becomes the sum of both sizes instead of the product. The
/// execution order constraints stay the same. O(edges log edges); pure.
Joins joined(const Waits& waits);

}  // namespace emplace::tf

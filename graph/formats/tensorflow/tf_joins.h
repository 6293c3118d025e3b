#pragma once
/// Many nodes that wait for the same many nodes, without an edge for each pair.

#include <cstdint>
#include <vector>

namespace emplace::tf {

/// Who waits for whom, by node: each list sorted, without repeats.
using Waits = std::vector<std::vector<std::uint32_t>>;

struct Joins {
  Waits direct;     ///< By node: what it still waits for itself.
  Waits by_node;    ///< By node: the joins that it waits for.
  Waits producers;  ///< By join: the nodes that it waits for.
};

/// Where every one of some nodes waits for every one of others, and that saves at least 32 edges, a join
/// waits in their place: edges become the sum of both numbers, not the product. What must run before what
/// stays the same. O(edges log edges); pure.
Joins joined(const Waits& waits);

}  // namespace emplace::tf

#pragma once
/// Low-latency splits whose pieces run one after the other: dynamic programming over cuts of a block order.

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "solver/exact/block_graph.h"

namespace emplace {

/// For each of `orders` random orders of the blocks, the best chains of ranges. Each range is a piece on its
/// own accelerator, or on the CPU, where it takes its work or its longest path. Solved once for the given
/// number of accelerators, and several times with a price per byte, packed into the accelerators afterwards;
/// chains that do not fit are dropped. Optimal if the graph is a chain and there is an accelerator for each
/// piece; otherwise a good start, possibly with cyclic pieces. Returns placements, [ops] each.
std::vector<Placement> chain_splits(const BlockGraph& graph, const SplitMachine& machine,
                                    const Problem& problem, Rng& rng, std::size_t orders);

}  // namespace emplace

#pragma once
/// Splits of low latency that run piece after piece: dynamic programming over cuts of an order of the blocks.

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "heuristics/split/block_graph.h"

namespace emplace {

/// For each of `orders` random orders of the blocks, the best chains of ranges: each range a piece on an
/// accelerator of its own, or on the CPU, where it takes its longest path. Once with as many accelerators as
/// there are, and several times at a price per byte, packed into the accelerators afterwards; what does not
/// fit is left out. Optimal where the graph is a chain and there is an accelerator for each piece; elsewhere
/// good places to begin, some of which run in a circle. [ops] each.
std::vector<Placement> chain_splits(const BlockGraph& graph, const SplitMachine& machine,
                                    const Problem& problem, Rng& rng, std::size_t orders);

}  // namespace emplace

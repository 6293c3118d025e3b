#pragma once
/// Contiguous splits with the least max-load, exact: dynamic programming over the order ideals of the block
/// graph.
///                       Source: Tarnawski et al., Efficient Algorithms for Device Placement, NeurIPS 2020,
///                       section 5  [TAR-DP]

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "solver/exact/block_graph.h"

namespace emplace {

struct IdealLimits {
  std::size_t ideals = 500'000;  ///< Maximum number of ideals.
  /// Maximum number of stored states (ideals × device counts); 12 bytes each.
  std::size_t states = 20'000'000;
  /// Bound on the work: pieces, each weighted by 4 plus the number of states it is applied to; a few seconds.
  std::uint64_t steps = 500'000'000;
  std::function<bool()> stopped;
};

/// Device of each block. The pieces are the differences of a growing chain of order ideals, CPUs included.
struct IdealSplit {
  std::int64_t max_load_ps = 0;
  std::vector<std::uint32_t> device_of_block;  ///< [blocks] Accelerators first, then CPUs.
  std::size_t ideals = 0;
  std::uint64_t pieces = 0;
};

/// Computes the optimum. `upper_ps` is a load known to be feasible (a tight one saves time), or any large
/// number. Errors: kUnsupported if ideals or pieces exceed the limits, or after a stop request; kNoPlacement
/// if no split fits.
Result<IdealSplit> best_ideal_split(const BlockGraph& graph, const SplitMachine& machine,
                                    std::int64_t upper_ps, const IdealLimits& limits);

/// The best split of one block order into pieces on accelerators only: an upper bound in O(blocks²). Returns
/// a huge value if no split fits.
std::int64_t best_linear_load_ps(const BlockGraph& graph, const std::vector<std::uint32_t>& order,
                                 const SplitMachine& machine);

}  // namespace emplace

#pragma once
/// Contiguous splits of least max-load, exactly: dynamic programming over the order ideals of the block
/// graph.
///                       Source: Tarnawski et al., Efficient Algorithms for Device Placement, NeurIPS 2020,
///                       section 5

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "heuristics/split/block_graph.h"

namespace emplace {

struct IdealLimits {
  std::size_t ideals = 500'000;     ///< At most.
  std::size_t states = 20'000'000;  ///< Ideals × device counts that are kept: 12 bytes each.
  /// Differences of ideals that are looked at, each times 4 and the device counts it begins from: seconds.
  std::uint64_t steps = 500'000'000;
  std::function<bool()> stopped;
};

/// Which part of the machine takes each block, of splits whose parts are the differences of a growing chain
/// of order ideals, CPUs included.
struct IdealSplit {
  std::int64_t max_load_ps = 0;
  std::vector<std::uint32_t> device_of_block;  ///< Accelerators first, then CPUs.
  std::size_t ideals = 0;
  std::uint64_t pieces = 0;
};

/// The optimum. `upper_ps` is a load that is known to be reached (a tighter one saves time), or any high
/// number. Errors: kUnsupported if ideals or pieces pass the limits, or it was stopped; kNoPlacement if
/// nothing fits.
Result<IdealSplit> best_ideal_split(const BlockGraph& graph, std::size_t accelerators, std::size_t cpus,
                                    std::int64_t memory_bytes, std::int64_t upper_ps,
                                    const IdealLimits& limits);

/// The best split into pieces of one order of the blocks, accelerators only: an upper bound, in O(blocks²).
/// The most there is if nothing fits.
std::int64_t best_linear_load_ps(const BlockGraph& graph, const std::vector<std::uint32_t>& order,
                                 std::size_t accelerators, std::int64_t memory_bytes);

}  // namespace emplace

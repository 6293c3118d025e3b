#pragma once
/// The graph that contiguous splits are made of: blocks of ops that share a device, each after those it
/// needs.

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "heuristics/method.h"
#include "placement/split_costs.h"

namespace emplace {

/// Groups of ops become blocks; blocks that need one another in a circle are fused. Numbers are a topological
/// order.
struct BlockGraph {
  struct Net {
    std::int64_t ps = 0;
    std::uint32_t maker = 0;            ///< Block.
    std::vector<std::uint32_t> blocks;  ///< Distinct, the maker's first.
  };
  std::vector<std::vector<std::uint32_t>> ops, before, after, nets;  ///< [blocks]
  std::vector<std::int64_t> accelerator_ps, cpu_ps, bytes;           ///< [blocks]
  std::vector<bool> on_accelerator, on_cpu;                          ///< [blocks] It may be there.
  std::vector<Net> all_nets;  ///< Those that lie in one block are left out.

  std::size_t size() const { return ops.size(); }
};

/// What needs what.
enum class BlockEdges : std::uint8_t {
  kAll,  ///< Every tensor.
  /// Tensors of the forward pass; groups without a forward op mirror their backward pass (a gradient's reader
  /// comes before its maker), as the pipelines of Tarnawski et al. do.
  kForward,
};

/// The machine as contiguous splits see it: `accelerators` alike, `cpus` alike.
struct SplitMachine {
  std::vector<DeviceId> accelerators, cpus;
  std::int64_t memory_bytes = 0;  ///< Of each accelerator.
};
/// Errors (kNoPlacement): accelerators or CPUs are not alike; an op that may use only some of them.
Result<SplitMachine> split_machine(const Problem& problem, const SplitCosts& costs);

/// `group_of_op` [ops] keeps co-location classes whole. @pre split_machine() succeeded.
BlockGraph make_blocks(const Problem& problem, const SplitCosts& costs, const SplitMachine& machine,
                       const std::vector<std::uint32_t>& group_of_op, BlockEdges edges);

/// A topological order, the next block drawn among the ready ones: mostly the newest (`depth` of 8 times), so
/// that branches stay together.
std::vector<std::uint32_t> random_order(const BlockGraph& graph, Rng& rng, std::uint32_t depth);

}  // namespace emplace

#pragma once
/// The graph of which contiguous splits are made: blocks of ops that share a device, after the blocks they
/// depend on.

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "placement/split_costs.h"
#include "solver/method.h"

namespace emplace {

/// Groups of ops become blocks; blocks in a dependency cycle are merged. Block numbers are a topological
/// order.
struct BlockGraph {
  struct Net {
    std::int64_t ps = 0;
    std::int64_t kept_bytes = 0;        ///< Kept by each other device that reads it.
    std::uint32_t maker = 0;            ///< Block that produces it.
    std::vector<std::uint32_t> blocks;  ///< Distinct; the producer's first.
  };
  std::vector<std::vector<std::uint32_t>> ops, before, after, nets;  ///< [blocks]
  std::vector<std::int64_t> accelerator_ps, cpu_ps, bytes;           ///< [blocks]
  std::vector<bool> on_accelerator, on_cpu;                          ///< [blocks] Allowed sides.
  std::vector<Net> all_nets;                                         ///< Nets within one block are omitted.

  std::size_t size() const { return ops.size(); }
};

/// Dependencies that a split must respect.
enum class BlockEdges : std::uint8_t {
  kAll,  ///< All tensors.
  /// Tensors of the forward pass. Groups without a forward op mirror their backward pass (a gradient's reader
  /// comes before its producer), as in the pipelines of Tarnawski et al.
  kForward,
};

/// The machine of a contiguous split: identical accelerators, identical CPUs.
struct SplitMachine {
  std::vector<DeviceId> accelerators, cpus;
  std::int64_t memory_bytes = 0;      ///< Memory of each accelerator.
  std::int64_t cpu_memory_bytes = 0;  ///< Least memory of a CPU.
  bool cpu_in_turn = false;           ///< Whether a CPU runs one op at a time.
};
/// Errors (kNoPlacement): accelerators or CPUs differ, or an op may use only some of them.
Result<SplitMachine> split_machine(const Problem& problem, const SplitCosts& costs);

/// Builds the blocks. `group_of_op` [ops] keeps co-location classes whole. @pre split_machine() succeeded.
BlockGraph make_blocks(const Problem& problem, const SplitCosts& costs, const SplitMachine& machine,
                       const std::vector<std::uint32_t>& group_of_op, BlockEdges edges);

/// Random topological order: the next block is mostly (`depth` of 8 times) the most recently ready one, so
/// that branches stay together.
std::vector<std::uint32_t> random_order(const BlockGraph& graph, Rng& rng, std::uint32_t depth);

}  // namespace emplace

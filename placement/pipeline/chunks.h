#pragma once
/// What a device runs of one micro-batch without interruption: the stages of a pipeline.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "graph/lowering.h"
#include "graph/training/micro_batch.h"
#include "placement/placement.h"

namespace emplace {

/// Kernels of one phase on one device, in issue order.
struct Chunk {
  Phase phase = Phase::kForward;  ///< A sum of gradients belongs to the backward pass.
  std::uint32_t level = 0;  ///< Changes of device on the longest way to it within forward and backward pass,
                            ///< or within the update.
  DeviceId device{};
  std::uint32_t runs = 1;  ///< Micro-batches of its replica, or one run of the update.
  std::vector<OpId> kernels;

  bool runs_once() const { return phase == Phase::kUpdate; }
};

/// The chunks of a placement, each after those that it reads from.
struct Chunks {
  std::vector<Chunk> chunks;
  std::vector<std::uint32_t> of;  ///< [ops] The chunk of a kernel; kNoIndex for other ops.
  /// [chunks] The other chunks that it reads from, in ascending order.
  std::vector<std::vector<std::uint32_t>> sources;

  const Chunk& operator[](std::uint32_t chunk) const { return chunks[chunk]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(chunks.size()); }
};

/// Cuts a placement [ops of the micro-batch's graph] where it changes devices. An op that could run in
/// several chunks is in that of its first reader. `lowered`: that graph. Pure; O(ops + reads).
Chunks cut_into_chunks(const MicroBatchGraph& graph, const LoweredGraph& lowered,
                       std::span<const DeviceId> placement);

}  // namespace emplace

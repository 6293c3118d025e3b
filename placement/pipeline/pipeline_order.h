#pragma once
/// The order in which devices run the chunks of micro-batches: the schedule of a pipeline.

#include <cstdint>
#include <span>
#include <vector>

#include "placement/pipeline/chunks.h"
#include "placement/strategy.h"

namespace emplace {

/// A chunk for one micro-batch; micro-batch 0 for a chunk of the update.
struct Action {
  std::uint32_t chunk = 0, micro_batch = 0;
  bool operator==(const Action&) const = default;
};

/// Actions of a step. Thread: a plain value.
struct PipelineOrder {
  std::vector<Action> actions;                        ///< Each after those that it depends on.
  std::vector<std::vector<std::uint32_t>> of_device;  ///< [devices] Positions in `actions`, ascending.
};

/// The order in which chunks would start if copies took no time. An idle device takes
/// - `1f1b`: a backward chunk, else a forward one. A forward chunk waits while as many of its
///   micro-batches have not returned as there are levels from it to the end of the forward pass: for one
///   stage per device, the published schedule;
/// - `gpipe`: a forward chunk; backward ones when it has run all of these.
/// Of several, that of the first micro-batch, then of the highest level. A chunk takes its micro-batches one
/// after the other. A chunk of the update comes last. `chunk_ns`: [chunks] the time of their kernels. Pure.
PipelineOrder pipeline_order(const Chunks& chunks, const Strategy& strategy, std::size_t num_devices,
                             std::span<const std::int64_t> chunk_ns);

}  // namespace emplace

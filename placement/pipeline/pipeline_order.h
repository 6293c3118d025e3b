#pragma once
/// The order in which devices run the chunks of micro-batches: the schedule of a pipeline.

#include <array>
#include <cstdint>
#include <vector>

#include "base/settings.h"
#include "placement/pipeline/chunks.h"

namespace emplace {

enum class PipelineSchedule : std::uint8_t {
  kGPipe,  ///< All forward passes, then all backward passes.       Paper: Huang et al., GPipe, NeurIPS 2019
  k1F1B,   ///< A backward pass as soon as there is one.            Paper: Narayanan et al., PipeDream, SOSP
           ///< 2019
};
constexpr auto enum_words(PipelineSchedule) {
  return EnumWords{"schedule", std::array{EnumWord{PipelineSchedule::kGPipe, "gpipe"},
                                          EnumWord{PipelineSchedule::k1F1B, "1f1b"}}};
}

/// A step as a pipeline. Thread: a plain value.
struct Pipeline {
  std::uint32_t micro_batches = 1;  ///< At least 1; 1: a plain step, without a pipeline.
  PipelineSchedule schedule = PipelineSchedule::k1F1B;

  bool used() const { return micro_batches > 1; }
  bool operator==(const Pipeline&) const = default;
};

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

/// The order in which chunks would start if those of the forward pass took one unit of time, all others two,
/// and copies none. An idle device takes
/// - `1f1b`: a backward chunk, else a forward one, unless as many of its micro-batches have not returned yet
/// as
///   there are levels from it to the end of the forward pass: for one stage per device, the published
///   schedule;
/// - `gpipe`: a forward chunk; backward ones when it has run all of these.
/// Of several, that of the first micro-batch, then of the highest level. A chunk takes its micro-batches one
/// after the other. A chunk of the update comes last. Pure.
PipelineOrder pipeline_order(const Chunks& chunks, const Pipeline& pipeline, std::size_t num_devices);

}  // namespace emplace

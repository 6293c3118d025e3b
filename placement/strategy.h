#pragma once
/// What a step is besides one copy of the graph: how often it runs before the update, and in what order.

#include <array>
#include <cstdint>

#include "base/settings.h"

namespace emplace {

enum class PipelineSchedule : std::uint8_t {
  kGPipe,  ///< All forward passes, then all backward passes.  Paper: Huang et al., GPipe, NeurIPS 2019
  k1F1B,   ///< A backward pass as soon as there is one.       Paper: Narayanan et al., PipeDream, SOSP 2019
};
constexpr auto enum_words(PipelineSchedule) {
  return EnumWords{"schedule", std::array{EnumWord{PipelineSchedule::kGPipe, "gpipe"},
                                          EnumWord{PipelineSchedule::k1F1B, "1f1b"}}};
}

/// The most micro-batches of a step.
inline constexpr std::uint32_t kMostMicroBatches = 4096;

/// Thread: a plain value.
struct Strategy {
  std::uint32_t micro_batches = 1;  ///< From 1 to kMostMicroBatches; 1: a plain step, without a pipeline.
  PipelineSchedule schedule = PipelineSchedule::k1F1B;

  bool pipelined() const { return micro_batches > 1; }
  bool operator==(const Strategy&) const = default;
};

}  // namespace emplace

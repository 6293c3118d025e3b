#pragma once
/// The objectives that placements are compared by.

#include <cstdint>

#include "base/settings.h"

namespace emplace {

enum class Objective : std::uint8_t {
  kStepTime,    ///< Duration of one simulated step, from its first op to its last.
  kThroughput,  ///< Load of the busiest device with overlapping steps: max-load on any graph.
  kLatency,     ///< Latency of a split whose pieces run whole (docs/guide/objectives.md).
  kMaxLoad,     ///< Load of the busiest device, for workloads of dnn-partitioning.
};

constexpr auto enum_words(Objective) {
  return EnumWords{
      "objective",
      std::array{EnumWord{Objective::kStepTime, "step-time"}, EnumWord{Objective::kThroughput, "throughput"},
                 EnumWord{Objective::kLatency, "latency"}, EnumWord{Objective::kMaxLoad, "max-load"}}};
}

}  // namespace emplace

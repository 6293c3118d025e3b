#pragma once
/// What a placement is judged by.

#include <cstdint>

#include "base/settings.h"

namespace emplace {

enum class Objective : std::uint8_t {
  kStepTime,    ///< One step of the simulator, from its first op to its last.
  kThroughput,  ///< The load of the busiest device when steps overlap: max-load on any graph.
  kLatency,     ///< Latency of a split whose pieces run whole (docs/guide/objectives.md).
  kMaxLoad,     ///< The busiest device's load, for workloads of dnn-partitioning.
};

constexpr auto enum_words(Objective) {
  return EnumWords{
      "objective",
      std::array{EnumWord{Objective::kStepTime, "step-time"}, EnumWord{Objective::kThroughput, "throughput"},
                 EnumWord{Objective::kLatency, "latency"}, EnumWord{Objective::kMaxLoad, "max-load"}}};
}

}  // namespace emplace

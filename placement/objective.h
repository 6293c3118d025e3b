#pragma once
/// What a placement is judged by.

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace emplace {

enum class Objective : std::uint8_t {
  kStepTime,    ///< One step of the simulator, from its first op to its last.
  kThroughput,  ///< The load of the busiest device when steps overlap: max-load on any graph.
  kLatency,     ///< Latency of a split whose pieces run whole (docs/objectives.md).
  kMaxLoad,     ///< The busiest device's load, for workloads of dnn-partitioning.
};

std::string_view objective_name(Objective objective);  ///< "step-time", "throughput", "latency", "max-load".
/// Errors: kInvalid, with the nearest name.
Result<Objective> parse_objective(std::string_view name);

}  // namespace emplace

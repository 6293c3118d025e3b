#pragma once
/// What one placement cost when it was run, or simulated. docs/measurement.md defines each quantity.

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace emplace {

struct Measurement {
  bool valid =
      false;  ///< False: it did not fit; step_time_s is then what it would have taken with enough memory.
  double step_time_s = 0;                ///< [s] end of the last op or transfer of one training step.
  std::vector<std::int64_t> peak_bytes;  ///< [devices] high-water mark of state and live tensors.
  std::vector<double> busy_s;            ///< [devices] time spent in ops.
  std::int64_t bytes_moved = 0;          ///< Over links.
  std::int64_t bytes_over = 0;           ///< Sum over devices of peak above the cap: how far from fitting.
  std::vector<double> samples_s;         ///< [steps] What a real executor timed; empty for a model.
  std::string failure;  ///< Why a real executor has no time: "oom: …", "crashed: …"; empty if it has one.
  double synthetic_share = 0;  ///< Share of time of ops that were stood in for; 0 in the simulator.

  bool operator==(const Measurement&) const = default;
};

}  // namespace emplace

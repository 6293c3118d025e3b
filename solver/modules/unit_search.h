#pragma once
/// Devices for whole modules: device maps and stages of pipelines, judged by the simulator.

#include <cstdint>
#include <vector>

#include "executor/sim/simulator.h"
#include "placement/export/module_search.h"
#include "solver/method.h"

namespace emplace {

/// Searches with simulated steps. `problem` and `simulator` must outlive it. Thread: one.
class UnitSearch final : public interop::ModuleSearch {
 public:
  UnitSearch(const Problem& problem, Simulator& simulator) : problem_{problem}, simulator_{simulator} {}

  /// Places the units one after the other by estimated times and bytes, keeping the best few per device and
  /// set of devices in use, then simulates these and moves, swaps and shifts units of the best. Evaluations
  /// are bounded by the size of the graph.
  Result<std::vector<DeviceId>> place(const interop::ModuleChoice& choice,
                                      const std::vector<DeviceId>& start) override;
  /// Optimal over cuts and devices by dynamic programming, with estimated bytes; cuts that the simulator
  /// refuses are made again with less memory.
  Result<std::vector<interop::StagePlan>> cut(const interop::ModuleChoice& choice,
                                              std::size_t stages) override;

 private:
  const Problem& problem_;
  Simulator& simulator_;
};

}  // namespace emplace

#pragma once
/// The memory of a split: what every device keeps, and what one step needs besides.

#include <cstdint>
#include <memory>
#include <span>

#include "executor/sim/simulator.h"
#include "placement/split_costs.h"

namespace emplace {

/// A device needs what it keeps (SplitCosts::held_bytes), or its peak in one simulated step if that is more;
/// so a split that fits is also a step that fits. Workloads of dnn-partitioning have no lifetimes: their
/// devices need what they keep (docs/guide/objectives.md). `graph` and `devices` must outlive it, but are not
/// used before the first step. Thread: one at a time.
class SplitMemory {
 public:
  SplitMemory(const OpGraph& graph, const DeviceSet& devices, SimulatorOptions options)
      : graph_{&graph}, devices_{&devices}, options_{options} {}

  /// Sets peak_bytes and bytes_over of `out`. Errors: kInvalid for what no placement is.
  Result<Unit> measure(const SplitCosts& costs, std::span<const DeviceId> placement, Measurement& out);
  /// Bytes by which one step exceeds the caps. @pre the graph is no workload
  Result<std::int64_t> step_over(std::span<const DeviceId> placement);

 private:
  Simulator& simulator();

  const OpGraph* graph_;
  const DeviceSet* devices_;
  SimulatorOptions options_;
  std::unique_ptr<Simulator> simulator_;
  Measurement step_;
};

}  // namespace emplace

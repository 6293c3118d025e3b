#pragma once
/// What a memory plan (graph/memory_plan.h) adds to a step.

#include <optional>
#include <set>
#include <utility>

#include "graph/op_graph.h"
#include "placement/schedule.h"

namespace emplace {

/// Finds the runs of a step that its memory plan added. Without a plan there are none. Any thread.
class PlannedRuns {
 public:
  /// `step`: one of `graph`, the graph of the plan, which must outlive it.
  PlannedRuns(const OpGraph& graph, const Schedule& step);

  /// Whether the op makes something again.
  bool is_again(const OpRun& run) const;
  /// The device that a copied tensor leaves to wait on another one, or to which it comes back; none: another
  /// copy.
  std::optional<DeviceId> home(const TransferRun& run) const;

 private:
  const OpGraph& graph_;
  std::set<std::pair<TensorId, DeviceId>> waiting_;  // The moved tensors, and where they wait.
};

}  // namespace emplace

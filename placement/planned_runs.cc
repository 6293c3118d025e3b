#include "placement/planned_runs.h"

#include "graph/memory_plan.h"

namespace emplace {

PlannedRuns::PlannedRuns(const OpGraph& graph, const Schedule& step) : graph_{graph} {
  for (const OpRun& run : step.ops)
    if (graph.type_name(run.op) == kFetchType) waiting_.emplace(graph.inputs(run.op)[0], run.device);
}

bool PlannedRuns::is_again(const OpRun& run) const { return graph_.name(run.op).ends_with(kAgain); }

std::optional<DeviceId> PlannedRuns::home(const TransferRun& run) const {
  if (graph_.type_name(graph_.producer(run.tensor)) == kFetchType) return run.target;
  if (waiting_.contains({run.tensor, run.target})) return run.source;
  return std::nullopt;
}

}  // namespace emplace

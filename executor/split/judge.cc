#include "executor/split/judge.h"

#include "executor/sim/placeto_model.h"
#include "executor/split/latency_model.h"
#include "executor/split/load_model.h"
#include "placement/partitioning_machine.h"

namespace emplace {

Result<Judge> parse_judge(const std::string& objective, const std::string& dispatch) {
  const auto by = parse_word<Objective>(objective);
  if (!by) return invalid("--objective", by.error().context);
  const auto order = parse_word<Dispatch>(dispatch);
  if (!order) return invalid("--dispatch", order.error().context);
  return Judge{*by, {.dispatch = *order}};
}

std::unique_ptr<Executor> make_model(const OpGraph& graph, const DeviceSet& devices, const Judge& judge) {
  if (judge.objective == Objective::kStepTime && judge.placeto) return make_placeto_model(graph, devices);
  if (judge.objective == Objective::kStepTime)
    return std::make_unique<Simulator>(graph, devices, judge.simulator);
  if (judge.objective == Objective::kLatency)
    return std::make_unique<LatencyModel>(graph, devices, judge.simulator);
  return std::make_unique<LoadModel>(graph, devices, judge.simulator);
}

bool fits_a_step(const Judge& judge, const OpGraph& graph) {
  return !judge.placeto && (judge.objective == Objective::kStepTime || !is_workload(graph));
}

ProvenBound bound_of(const Judge& judge, const OpGraph& graph, const DeviceSet& devices,
                     const Constraints& constraints, const Allowed& allowed) {
  if (judge.placeto) return {};
  return proven_bound(graph, devices, constraints, judge.objective, allowed);
}

}  // namespace emplace

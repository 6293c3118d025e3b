#include "executor/split/judge.h"

#include "base/text/words.h"
#include "executor/pipeline/pipeline_simulator.h"
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

Result<Unit> check_strategy(const Judge& judge) {
  if (!judge.strategy.pipelined()) return Unit{};
  const std::string option = "--micro-batches " + text_of_micro_batches(judge.strategy);
  if (judge.objective != Objective::kStepTime)
    return invalid(option, "needs --objective step-time",
                   "the other objectives are about many steps, or none");
  if (judge.simulator.dispatch != Dispatch::kProgram)
    return invalid(option, "needs --dispatch program", "a pipeline has an order of its own");
  if (judge.placeto)
    return invalid(option, "needs --executor sim", "Placeto's simulator knows one copy of the graph");
  return Unit{};
}

std::unique_ptr<Executor> make_model(const OpGraph& graph, const DeviceSet& devices, const Judge& judge) {
  if (judge.objective == Objective::kStepTime && judge.placeto) return make_placeto_model(graph, devices);
  if (judge.strategy.pipelined()) return std::make_unique<PipelineSimulator>(graph, devices, judge.strategy);
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
  if (judge.strategy.pipelined()) return strategy_bound(graph, devices, constraints, judge.strategy);
  return proven_bound(graph, devices, constraints, judge.objective, allowed);
}

}  // namespace emplace

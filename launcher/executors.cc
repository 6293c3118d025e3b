#include "launcher/executors.h"

#include "base/text/words.h"
#include "executor/latency_model.h"
#include "executor/load_model.h"
#include "executor/split_bound.h"
#include "placement/bound.h"
#include "placement/cost_model.h"

namespace emplace::launcher {

Result<SimulatorOptions> simulator_options(const std::string& dispatch) {
  if (dispatch == "program") return SimulatorOptions{.dispatch = Dispatch::kProgram};
  if (dispatch == "fifo") return SimulatorOptions{.dispatch = Dispatch::kFifo};
  return invalid("--dispatch '" + printable(dispatch, 40) + "'", "is unknown", "use program or fifo");
}

Result<Judge> parse_judge(const std::string& objective, const std::string& dispatch) {
  const auto parsed = parse_objective(objective);
  if (!parsed) return parsed.error();
  const auto options = simulator_options(dispatch);
  if (!options) return options.error();
  return Judge{*parsed, *options};
}

std::unique_ptr<Executor> make_model(const OpGraph& graph, const DeviceSet& devices, const Judge& judge) {
  if (judge.objective == Objective::kStepTime)
    return std::make_unique<Simulator>(graph, devices, judge.simulator);
  if (judge.objective == Objective::kLatency) return std::make_unique<LatencyModel>(graph, devices);
  return std::make_unique<LoadModel>(graph, devices);
}

Result<std::unique_ptr<Executor>> make_executor(const std::string& kind, const OpGraph& graph,
                                                const DeviceSet& devices, const Judge& judge) {
  if (kind == "sim" || kind == "fake") return make_model(graph, devices, judge);
  if (kind == "cpu" || kind == "cuda")
    return Error{Errc::kUnsupported, "executor '" + kind + "': is not in this build; use sim"};
  return invalid("executor '" + printable(kind, 40) + "'", "is none", "use sim");
}

ProvenBound proven_bound(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                         const Judge& judge) {
  if (judge.objective != Objective::kStepTime) {
    const SplitBound bound = split_bound(SplitCosts{graph, devices}, constraints, judge.objective);
    return {bound.seconds, bound.which};
  }
  const LowerBound bound = lower_bound(graph, devices, constraints, CostTable{graph, devices});
  return {bound.seconds(), bound.which()};
}

}  // namespace emplace::launcher

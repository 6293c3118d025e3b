#include "executor/split/judge.h"

#include "base/text/words.h"
#include "executor/split/latency_model.h"
#include "executor/split/load_model.h"

namespace emplace {

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

}  // namespace emplace

#include "executor/split/judge.h"

#include "executor/split/latency_model.h"
#include "executor/split/load_model.h"

namespace emplace {

Result<Judge> parse_judge(const std::string& objective, const std::string& dispatch) {
  EMPLACE_TRY_ASSIGN(const Objective by, parse_word<Objective>(objective));
  EMPLACE_TRY_ASSIGN(const Dispatch order, parse_word<Dispatch>(dispatch));
  return Judge{by, {.dispatch = order}};
}

std::unique_ptr<Executor> make_model(const OpGraph& graph, const DeviceSet& devices, const Judge& judge) {
  if (judge.objective == Objective::kStepTime)
    return std::make_unique<Simulator>(graph, devices, judge.simulator);
  if (judge.objective == Objective::kLatency) return std::make_unique<LatencyModel>(graph, devices);
  return std::make_unique<LoadModel>(graph, devices);
}

}  // namespace emplace

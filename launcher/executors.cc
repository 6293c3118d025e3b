#include "launcher/executors.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/text/words.h"
#include "executor/split/latency_model.h"
#include "executor/split/load_model.h"
#include "launcher/exec/chaos.h"
#include "launcher/exec/helper_program.h"
#include "launcher/exec/process_executor.h"
#include "placement/bounds/lower_bound.h"
#include "placement/bounds/split_bound.h"
#include "placement/machine/cost_model.h"

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

Result<TimingOptions::Statistic> parse_statistic(const std::string& name) {
  if (name == "median") return TimingOptions::Statistic::kMedian;
  if (name == "mean") return TimingOptions::Statistic::kMean;
  return invalid("statistic '" + printable(name, 40) + "'", "is unknown", "use median or mean");
}

Result<Unit> check_process_executor(const std::string& kind, const Judge& judge,
                                    const ProcessRequest& request) {
  const auto kinds = process_executor_kinds();
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
    return invalid("executor '" + printable(kind, 40) + "'", "is none", "use sim, cpu, cuda or fake");
  if (judge.objective != Objective::kStepTime)
    return invalid("executor '" + kind + "'", "measures step times", "use --objective step-time, or sim");
  if (request.real.timing.samples == 0)
    return invalid("executor '" + kind + "'", "needs at least one sample", "use 5");
  if (auto plan = parse_chaos(request.chaos); !plan) return plan.error();
  if (auto program = helper_program(kind); !program) return program.error();
  return Unit{};
}

std::unique_ptr<RealExecutor> make_process_executor(const std::string& kind, const OpGraph& graph,
                                                    const DeviceSet& devices, const ProcessRequest& request) {
  static const SystemClock clock;
  ProcessExecutorOptions options;
  options.kind = kind;
  options.command.program = helper_path(kind);
  for (std::size_t at = 0; at < request.chaos.size();) {  // "a=1,b=2" as options: --a=1 --b=2
    const std::size_t end = std::min(request.chaos.find(',', at), request.chaos.size());
    options.command.arguments.push_back("--" + request.chaos.substr(at, end - at));
    at = end + 1;
  }
  if (kind == "fake" && request.delay_s > 0)
    options.command.arguments.push_back("--delay=" + std::to_string(request.delay_s) + "s");
  // Threads that wait must not spin on the cores that others are timed on.
  options.command.environment = {"OMP_WAIT_POLICY=passive", "GOMP_SPINCOUNT=0", "OMP_NUM_THREADS=1"};
  options.real = request.real;
  options.supervision.least_deadline = Nanos{static_cast<std::int64_t>(request.deadline_s * 1e9)};
  options.supervision.silence = std::clamp(options.supervision.least_deadline, Nanos{std::chrono::seconds{3}},
                                           options.supervision.silence);
  options.supervision.restarts_per_minute = static_cast<int>(request.restarts);
  options.supervision.seed = request.real.seed;
  options.interrupted = request.interrupted;
  options.note = request.note;
  return std::make_unique<ProcessExecutor>(graph, devices, std::move(options), clock);
}

Result<std::unique_ptr<Executor>> make_executor(const std::string& kind, const OpGraph& graph,
                                                const DeviceSet& devices, const Judge& judge,
                                                const ProcessRequest& request) {
  if (kind == "sim") return make_model(graph, devices, judge);
  if (auto fit = check_process_executor(kind, judge, request); !fit) return fit.error();
  return std::unique_ptr<Executor>{make_process_executor(kind, graph, devices, request)};
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

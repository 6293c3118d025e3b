#include "solver/pipeline/strategy_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "executor/pipeline/pipeline_simulator.h"
#include "graph/memory_plan.h"
#include "solver/memory/planned_methods.h"
#include "solver/pipeline/pipeline_search.h"
#include "solver/pipeline/stage_split.h"

namespace emplace {
namespace {

/// Passes per second of the devices of a replica, if they share its work without waiting.
double speed_of(const std::vector<DeviceId>& group, const CostTable& costs) {
  double speed = 0;
  for (const DeviceId device : group) {
    const auto row = costs.row_ns(device);
    speed += 1 / std::max(1.0, static_cast<double>(std::accumulate(row.begin(), row.end(), std::int64_t{0})));
  }
  return speed;
}

/// Shares in proportion to speeds, by largest remainders, each at least 1.
std::vector<std::uint32_t> shares_by(const std::vector<double>& speeds, std::uint32_t micro_batches) {
  const double total = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  std::vector<std::uint32_t> shares(speeds.size(), 1);
  // Each further micro-batch goes where it ends first.
  for (std::uint32_t left = micro_batches - static_cast<std::uint32_t>(speeds.size()); left > 0; --left) {
    std::size_t best = 0;
    for (std::size_t r = 1; r < speeds.size(); ++r)
      if ((shares[r] + 1) / (speeds[r] / total) < (shares[best] + 1) / (speeds[best] / total)) best = r;
    ++shares[best];
  }
  return shares;
}

/// The problem of the first replica alone, on the machine of its devices.
class FirstReplica {
 public:
  FirstReplica(const Problem& problem, const Judge& judge, const Strategy& strategy, Constraints constraints)
      : devices_{strategy.replicas.empty() ? problem.devices : problem.devices.part(strategy.replicas[0])},
        constraints_{std::move(constraints)},
        costs_{problem.graph, devices_},
        judge_{judge},
        problem_{problem.graph, devices_, constraints_, costs_, problem.seed, problem.objective} {
    judge_.strategy = {.micro_batches = strategy.share(0), .schedule = strategy.schedule};
  }
  FirstReplica(const FirstReplica&) = delete;
  FirstReplica& operator=(const FirstReplica&) = delete;

  Problem problem(const Context& context) const {
    Problem own = problem_;
    own.context = context;
    own.context.better = {};  // It would report placements on the machine's first devices.
    own.context.bound_s = 0;
    return own;
  }
  const Judge& judge() const { return judge_; }

 private:
  const DeviceSet devices_;
  const Constraints constraints_;
  const CostTable costs_;
  Judge judge_;
  const Problem problem_;
};

/// Gives an answer of the first replica the devices, the measurement and the strategy of all.
Result<Unit> extend(Answer& answer, const Problem& problem, const Strategy& strategy) {
  if (!strategy.replicas.empty())
    for (DeviceId& device : answer.placement) device = strategy.replicas[0][index(device)];
  answer.strategy = strategy;
  answer.findings.clear();  // They are steps of the first replica.
  ++answer.evaluations;
  if (answer.plan.empty())
    return PipelineSimulator{problem.graph, problem.devices, strategy}.measure(answer.placement,
                                                                               answer.measurement);
  EMPLACE_TRY_ASSIGN(const PlannedGraph graph, planned(problem.graph, answer.plan, problem.devices.names()));
  return PipelineSimulator{graph.graph, problem.devices, strategy}.measure(planned(answer.placement, graph),
                                                                           answer.measurement);
}

}  // namespace

std::vector<Strategy> replicated(const Strategy& strategy, const Problem& problem, std::uint32_t replicas) {
  Strategy one{.micro_batches = strategy.micro_batches, .schedule = strategy.schedule};
  if (replicas == 1) return {one};
  auto consecutive = consecutive_groups(problem.devices, replicas);
  if (!consecutive || replicas > strategy.micro_batches) return {};
  std::vector<std::vector<DeviceId>> strided(replicas);
  std::size_t k = 0;
  for (const std::vector<DeviceId>& group : *consecutive)
    for (const DeviceId device : group) strided[k++ % replicas].push_back(device);
  std::vector<Strategy> found;
  for (const auto& groups : {*std::move(consecutive), std::move(strided)}) {
    if (!found.empty() && found.front().replicas == groups) continue;
    Strategy own = one;
    own.replicas = groups;
    if (own.micro_batches % replicas == 0) found.push_back(own);
    std::vector<double> speeds;
    for (const std::vector<DeviceId>& group : groups) speeds.push_back(speed_of(group, problem.costs));
    if (std::ranges::max(speeds) < 1.02 * std::ranges::min(speeds)) continue;
    own.shares = shares_by(speeds, own.micro_batches);
    found.push_back(std::move(own));
  }
  return found;
}

Result<Answer> search_strategies(const std::vector<const Method*>& methods, const Problem& problem,
                                 const Judge& judge, const Allowed& allowed) {
  const Context& context = problem.context;
  const auto stopped = [&] {
    return (context.stopped && context.stopped()) || context.clock->now() >= context.deadline;
  };
  std::vector<Strategy> strategies;
  const std::uint32_t wanted = judge.strategy.replicas.empty() ? 0 : judge.strategy.num_replicas();
  for (std::uint32_t r = 1;
       r <= std::min<std::uint64_t>(problem.devices.size(), judge.strategy.micro_batches); ++r) {
    if (wanted != 0 && r != wanted) continue;
    for (Strategy& strategy : replicated(judge.strategy, problem, r))
      strategies.push_back(std::move(strategy));
  }
  std::optional<Answer> best;
  std::uint64_t evaluations = 0;
  const auto offer = [&](Answer answer, const Strategy& strategy) -> Result<Unit> {
    // No step of all replicas is shorter than that of the first one.
    if (best && best->measurement.valid && !better(answer.measurement, best->measurement)) return Unit{};
    evaluations += answer.evaluations;
    EMPLACE_TRY(extend(answer, problem, strategy));
    if (!best || better(answer.measurement, best->measurement)) best = std::move(answer);
    return Unit{};
  };
  const auto first_replica = [&](const Strategy& strategy) -> Result<std::unique_ptr<FirstReplica>> {
    if (strategy.replicas.empty())
      return std::make_unique<FirstReplica>(problem, judge, strategy, problem.constraints);
    EMPLACE_TRY_ASSIGN(Constraints constraints, problem.constraints.part(strategy.replicas[0]));
    return std::make_unique<FirstReplica>(problem, judge, strategy, std::move(constraints));
  };
  std::string why = "the devices or micro-batches cannot be divided";
  for (const Strategy& strategy : strategies) {
    if (best && stopped()) break;
    const auto first = first_replica(strategy);
    if (!first) {
      why = first.error().context;
      continue;
    }
    // Stages alone: they are known in a moment.
    Context moment = context;
    moment.searches = false;
    moment.starts = {};
    const Problem own = (*first)->problem(moment);
    const auto model = make_model(own.graph, own.devices, (*first)->judge());
    EMPLACE_TRY_ASSIGN(Answer answer, search_pipelines({}, own, (*first)->judge(), *model, allowed));
    EMPLACE_TRY(offer(std::move(answer), strategy));
  }
  if (!best) return Error{Errc::kNoPlacement, why};
  if (!stopped()) {
    const Strategy strategy = *best->strategy;
    EMPLACE_TRY_ASSIGN(const auto first, first_replica(strategy));
    Context rest = context;
    rest.starts = {};
    const Problem own = first->problem(rest);
    const auto model = make_model(own.graph, own.devices, first->judge());
    EMPLACE_TRY_ASSIGN(Answer answer, search_pipelines(methods, own, first->judge(), *model, allowed));
    EMPLACE_TRY(offer(std::move(answer), strategy));
  }
  best->evaluations = evaluations;
  return *std::move(best);
}

Result<Answer> DataParallel::find(const Problem& problem, Executor&) const {
  std::uint32_t replicas = 0;
  for (std::uint32_t r = 2; r <= problem.devices.size(); ++r)
    if (consecutive_groups(problem.devices, r)) replicas = r;
  const std::vector<Strategy> strategies =
      replicas == 0 ? std::vector<Strategy>{} : replicated(strategy_, problem, replicas);
  if (strategies.empty())
    return Error{Errc::kNoPlacement, "needs several devices, and a micro-batch for each"};
  Answer best{.notes = {fmt::format("measures {} copies of the model; not a placement of one", replicas)}};
  for (const Strategy& strategy : strategies) {
    PipelineSimulator simulator{problem.graph, problem.devices, strategy};
    Measurement measured;
    EMPLACE_TRY(simulator.measure(Placement(problem.graph.num_ops(), strategy.replicas[0][0]), measured));
    if (++best.evaluations == 1 || better(measured, best.measurement)) best.measurement = std::move(measured);
  }
  return best;
}

}  // namespace emplace

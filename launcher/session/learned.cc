#include "launcher/session/learned.h"

#include <unistd.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/text/words.h"
#include "executor/sim/simulator.h"
#include "launcher/cluster/node/wiring.h"
#include "launcher/inputs/inputs.h"
#include "launcher/session/run.h"
#include "launcher/settings/placers.h"
#include "record/run_reader.h"
#include "solver/method.h"

namespace emplace::launcher {
namespace {

/// A temporary folder that the destructor removes.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make() {
    std::string name = (std::filesystem::temp_directory_path() / "emplace-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      return Error{Errc::kIo, printable(name) + ": cannot be created; check TMPDIR and the free disk space"};
    return ScratchFolder{name};
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_{std::exchange(other.path_, {})} {}
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchFolder(std::filesystem::path path) : path_{std::move(path)} {}
  std::filesystem::path path_;
};

/// Returns the config of the policy's run, or the tuned defaults of the method, for this graph. Starts from
/// the best heuristic if there is no policy, or if the policy learned from best heuristics.
Result<RunConfig> config_of(const InputOptions& inputs, const Request& request, double budget_s) {
  // A method that auto does not name is that of the policy.
  const std::string method = request.method == "auto" ? "" : request.method;
  Result<RunConfig> config = RunConfig{};
  bool improves = request.policy.empty();
  if (request.policy.empty()) {
    config = method_defaults(method, "tuned");
  } else {
    EMPLACE_TRY_ASSIGN(const auto warm, read_checkpoint(request.policy));
    config = recorded_config(warm.facts.config_toml, printable(request.policy) + ": config");
    improves = started_from_heuristics(warm.facts);
    // The order of the groups is a part of the policy, whatever the seed of this placement.
    if (config && config->policy.order_seed == 0) config->policy.order_seed = config->run.seed;
  }
  if (!config) return config;
  if (!method.empty() && config->policy.method != method) {
    return invalid("--policy " + printable(request.policy),
                   "is a policy of " + config->policy.method + ", not of " + method,
                   "use --method " + config->policy.method);
  }
  if (request.pass && !method_of(*config).is_stepwise)
    return invalid("--pass", "does not work with a policy of " + config->policy.method,
                   "name a policy of placeto, whose placements are sequences of steps");
  if (request.unseen_order >= 0 && !method_of(*config).orders_groups)
    return invalid("--unseen-order", "does not work with a policy of " + config->policy.method,
                   "name a policy of placeto, colocrl, spotlight or random-grouping");
  config->policy.unseen_order.reset();
  if (request.unseen_order >= 0)
    config->policy.unseen_order = static_cast<std::uint64_t>(request.unseen_order);
  config->input = {};
  config->input.graph = std::filesystem::absolute(inputs.graph).string();
  config->input.reading = inputs.reading;
  EMPLACE_TRY_ASSIGN(const CostVersion costs, inputs.cost_version());
  config->input.costs = static_cast<std::uint32_t>(costs);
  config->input.devices = resolved_devices(inputs.devices);
  if (!inputs.reserve.empty()) {
    EMPLACE_TRY_ASSIGN(config->input.reserve, parse_reserve(inputs.reserve));
  }
  if (!inputs.rules.empty()) config->input.rules = std::filesystem::absolute(inputs.rules).string();
  EMPLACE_TRY_ASSIGN(config->objective.kind, parse_word<Objective>(inputs.objective));
  EMPLACE_TRY_ASSIGN(config->executor.dispatch, parse_word<Dispatch>(inputs.dispatch));
  // The request names the model of a step, whatever the policy was trained with.
  if (request.judge.placeto || config->executor.kind == "placeto")
    config->executor.kind = request.judge.placeto ? "placeto" : "sim";
  config->executor.allow = request.allow;
  const std::string policy = request.policy.empty() ? config->run.policy : request.policy;
  config->run = {};
  config->run.policy = absolute_checkpoint(policy);
  if (improves) config->run.starts = {kBestHeuristic};
  std::erase(config->compare.methods, "auto");  // It takes as long as learning does.
  config->run.seed = request.seed;
  config->run.budget.seconds = budget_s;
  return config;
}

/// Returns the heuristics of a best-heuristic start; empty for any other start.
Result<Heuristics> start_of(const RunConfig& config, const actors::Task& task) {
  if (config.run.starts.front() != kBestHeuristic) return Heuristics{};
  return run_heuristics(task.graphs.front(), config, 0, SystemClock{});
}

std::string nothing_better(const Heuristics& start) {
  return "nothing better than " + start.rows[*start.start].method + "'s placement was found";
}

Result<Answer> place_at_once(RunConfig config, const Request& request) {
  // Start each sampled episode at the best placement so far, whatever the policy was trained with.
  if (config.run.starts.front() == kBestHeuristic) config.policy.initial = policy::InitialPlacement::kBest;
  EMPLACE_TRY_ASSIGN(const auto task, load_task(config));
  EMPLACE_TRY_ASSIGN(const auto start, start_of(config, *task));
  std::vector<Placement> starts;
  if (start.start) starts.push_back(start.placements[*start.start]);
  EMPLACE_TRY_ASSIGN(auto placer, make_placer(config, *task, starts));
  EMPLACE_TRY_ASSIGN(const auto policy, load_policy(config, *placer));
  EMPLACE_TRY(placer->parameters().load(policy.checkpoint.parameters));
  const actors::TaskGraph& one = task->graphs.front();
  const auto model = model_of(config, one);
  Answer best;
  best.method = config.policy.method + (request.pass           ? " (best of the pass)"
                                        : request.samples == 0 ? " (zero-shot)"
                                                               : " (sampled)");
  const auto offer = [&](Placement placement) -> Result<double> {
    EMPLACE_TRY_ASSIGN(PlannedPlacement now, model->decide(placement));
    const Measurement& measured = now.measurement;
    const double seconds = measured.valid ? measured.step_time_s : std::numeric_limits<double>::infinity();
    if (best.evaluations++ == 0 || better(measured, best.measurement)) {
      best.placement = std::move(now.placement);
      best.measurement = std::move(now.measurement);
      best.plan = std::move(now.plan);
    }
    return seconds;
  };
  if (start.start) {
    EMPLACE_TRY(offer(start.placements[*start.start]));
  }
  for (Placement& placement :
       request.pass ? placer->greedy_pass() : std::vector<Placement>{placer->greedy()}) {
    EMPLACE_TRY_ASSIGN(const double seconds, offer(std::move(placement)));
    if (request.pass) best.pass_s.push_back(seconds);
  }
  for (std::uint64_t episode = 0; episode < request.samples; ++episode) {
    EMPLACE_TRY_ASSIGN(auto placements,
                       placer->expand(placer->sample_from({&best.placement, 1}, episode, 0)));
    for (Placement& placement : placements) {
      EMPLACE_TRY(offer(std::move(placement)));
    }
  }
  if (start.start && best.placement == start.placements[*start.start]) best.notes = {nothing_better(start)};
  return best;
}

}  // namespace

Result<Answer> place_by_learning(const InputOptions& inputs, const Request& request, double budget_s,
                                 bool quiet) {
  EMPLACE_TRY_ASSIGN(auto config, config_of(inputs, request, budget_s));
  if (budget_s <= 0) return place_at_once(config, request);
  EMPLACE_TRY(check_config(config));
  EMPLACE_TRY_ASSIGN(auto task, load_task(config));
  EMPLACE_TRY_ASSIGN(const auto start, start_of(config, *task));
  task.reset();  // perform() loads the task again; free the memory.
  if (!start.start) config.run.starts = {"scratch"};
  EMPLACE_TRY_ASSIGN(const auto folder, ScratchFolder::make());
  EMPLACE_TRY_ASSIGN(
      const auto summary,
      perform({.config = config, .directory = folder.path(), .quiet = quiet, .announce_machine = false}));
  if (summary.outcomes.empty()) return Error{Errc::kRunFailed, "stopped by a signal before learning started"};
  const Outcome& outcome = summary.outcomes.front();
  const TableRow& row = outcome.rows.front();
  Answer found;
  found.method = config.policy.method;
  found.status = summary.status;
  found.evaluations = outcome.counters.measurements;
  // Times measured on real devices are not comparable with simulated heuristics.
  const bool comparable = row.found && row.measurement.label == MeasurementLabel::kSimulated;
  const TableRow* const started_from = start.start ? &start.rows[*start.start] : nullptr;
  if (started_from != nullptr &&
      (!row.found || (comparable && started_from->measurement.step_time_s < row.measurement.step_time_s))) {
    found.placement = start.placements[*start.start];
    found.measurement = started_from->measurement;
    EMPLACE_TRY_ASSIGN(found.plan, plan_of(config, summary.task->graphs.front(), found.placement));
    found.notes = {nothing_better(start)};
    return found;
  }
  if (!row.found)
    return Error{Errc::kNoPlacement, printable(inputs.graph) + ": " + config.policy.method +
                                         " found no feasible placement; use a larger --budget"};
  EMPLACE_TRY_ASSIGN(const auto db,
                     record::RunReader::open(outcome.start.directory, record::Reading::kQuietOrInProgress));
  EMPLACE_TRY_ASSIGN(const auto best, db->results().best());
  found.measurement = row.measurement;
  found.placement = record::placement_of(best->placement);
  EMPLACE_TRY_ASSIGN(found.plan, plan_of(config, summary.task->graphs.front(), found.placement));
  return found;
}

}  // namespace emplace::launcher

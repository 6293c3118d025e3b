#include "launcher/cluster/node/wiring.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "actors/baseline_tracker.h"
#include "actors/dispatch/dispatcher.h"
#include "actors/executor_actor.h"
#include "actors/learner.h"
#include "actors/recorder.h"
#include "actors/sampler.h"
#include "base/text/words.h"
#include "base/units.h"
#include "graph/formats/graph_file.h"
#include "launcher/cluster/roles.h"
#include "launcher/inputs/inputs.h"
#include "launcher/settings/host_facts.h"
#include "launcher/settings/log_driven.h"
#include "launcher/settings/placers.h"
#include "launcher/terminal/build_info.h"
#include "placement/machine/device_file.h"
#include "placement/placement_file.h"
#include "record/run_writer.h"
#include "runtime/log.h"

namespace emplace::launcher {
namespace {

using actors::TaskPtr;
using runtime::Home;

/// Maximum size of an episode's placements, which must fit into one frame [B].
constexpr std::size_t kMaxEpisodeBytes = std::size_t{48} << 20;

/// Returns whether the run has updates. Errors: it cannot be read.
Result<bool> has_learned(const std::filesystem::path& directory) {
  EMPLACE_TRY_ASSIGN(const auto db, record::RunReader::open(directory, record::Reading::kInProgress));
  EMPLACE_TRY_ASSIGN(const auto checkpoint, db->checkpoints().latest());
  return checkpoint.has_value();
}

/// Returns a handler that keeps best.placement.json in sync with the database.
actors::BestHandler best_handler(const RunConfig& config, const TaskPtr& task, const Start& start,
                                 const Clock& clock) {
  return [task, directory = start.directory, config, &clock](
             std::span<const DeviceId> placement, const messages::EpisodeMeasured& m, std::uint32_t number) {
    const actors::TaskGraph* const one = task->find(m.graph_sha256);
    if (one == nullptr) return;
    auto saved = [&]() -> Result<Unit> {
      EMPLACE_TRY_ASSIGN(MemoryPlan plan, plan_of(config, *one, {placement.begin(), placement.end()}));
      return save_placement(kept_path(directory, kBestPlacement, *task, *one), one->graph, one->devices,
                            placement, m.at(number),
                            {one->sha256, config.policy.method, m.executor_kinds[m.executor_of[number]],
                             config.run.seed, format_wall(clock.wall()), std::move(plan)});
    }();
    if (!saved) runtime::log(runtime::LogLevel::kError, actors::kRecorder, saved.error().context);
  };
}

/// Makes the actors of one process from the config and the run directory.
class Wiring {
 public:
  /// Errors (kInvalid, kIo): files of the run directory cannot be read.
  static Result<Wiring> make(const RunConfig& config, const TaskPtr& task, const Start& start,
                             std::span<const std::string> actors, const Clock& clock) {
    Wiring wiring{config, task, start, clock};
    const auto executors = std::count_if(actors.begin(), actors.end(), is_executor);
    const bool only_executors = executors == std::ssize(actors);
    if (executors > 0 && uses_processes(config)) {
      auto can = check_process_executor(config.executor.kind, judge_of(config), process_request_of(config));
      if (!can) return Error{Errc::kInvalid, can.error().context};  // A final error: restarts do not help.
      for (const actors::TaskGraph& one : task->graphs)
        EMPLACE_TRY(check_process_links(config.executor.kind, one.devices));
    }
    wiring.light_ = config.executor.kind == "fake" && !uses_processes(config) && only_executors;
    if (start.name == kBestHeuristic && !only_executors) {
      EMPLACE_TRY_ASSIGN(wiring.starting_, load_starting_placements(start.directory, *task));
    }
    if (!config.executor.log.empty()) {
      EMPLACE_TRY_ASSIGN(wiring.log_, open_driving_log(config, *task));
    }
    return wiring;
  }

  /// Spawns an actor by name: "executor/3".
  Result<Unit> spawn(runtime::Node& node, const std::string& actor) {
    const std::size_t slash = actor.find('/');
    const std::string role = actor.substr(0, slash);
    const auto number = static_cast<std::uint32_t>(std::stoull(actor.substr(slash + 1)));
    if (role == "dispatcher") return spawn_dispatcher(node);
    if (role == "tracker")
      return node.spawn<actors::BaselineTracker>(actors::kTracker, Home::kIoLoop, tracker_options());
    if (role == "recorder") return spawn_recorder(node);
    if (role == "learner") return spawn_learner(node);
    if (role == "executor") return spawn_executor(node, actor);
    return spawn_sampler(node, number);
  }

 private:
  Wiring(const RunConfig& config, TaskPtr task, const Start& start, const Clock& clock)
      : config_{config}, task_{std::move(task)}, start_{start}, clock_{&clock} {
    for (std::uint32_t c = 0; c < config.pipeline.controllers; ++c)
      samplers_.push_back(actors::sampler_name(c));
  }

  actors::TrackerOptions tracker_options() const {
    actors::TrackerOptions options{scoring_options(config_, *task_)};
    options.ordered = config_.run.deterministic;
    options.kept = std::size_t{4} * config_.pipeline.controllers * config_.pipeline.max_outstanding + 256;
    return options;
  }

  std::uint64_t window_bytes() const {
    return std::max<std::uint64_t>(
        actors::DispatcherOptions{}.window_bytes,
        4 * std::uint64_t{config_.pipeline.placements_per_lease} * task_->most_ops());
  }
  bool is_self_critical() const { return config_.reward.baseline.kind == policy::BaselineKind::kSelfCritic; }
  bool measures_locally() const { return config_.reward.source == RewardSource::kLocal; }
  actors::ExecutorFactory executors() const {
    if (log_) return [log = *log_](const actors::TaskGraph& of) { return make_replay_executor(log, of); };
    Judge judge = judge_of(config_);
    judge.simulator.incremental = method_of(config_).is_stepwise;  // Each step moves one group.
    if (uses_processes(config_)) {
      ProcessRequest request = process_request_of(config_);
      request.note = [](const std::string& line) {
        runtime::log(runtime::LogLevel::kWarning, "executor", line);
      };
      // The GPUs belong to the actor, whichever graph it measures.
      if (config_.executor.kind == "cuda") request.gpus = std::make_shared<GpuLease>(GpuSources::real());
      return [kind = config_.executor.kind, request](const actors::TaskGraph& of) {
        return std::unique_ptr<Executor>{make_process_executor(kind, of.graph, of.devices, request)};
      };
    }
    if (allowed_of(config_).memory() && measures_locally())
      return [config = config_](const actors::TaskGraph& of) { return model_of(config, of); };
    if (allowed_of(config_).memory())  // Its actor sends heartbeats while it decides.
      return [config = config_](const actors::TaskGraph& of) {
        return std::make_unique<PolledPlannedExecutor>(model_of(config, of));
      };
    return [judge](const actors::TaskGraph& of) { return make_model(of.graph, of.devices, judge); };
  }
  actors::PlacerFactory placers() const {
    return [config = config_, task = task_, starting = starting_] {
      return *make_placer(config, *task, starting);
    };
  }

  /// Returns the placers of samplers: the policy, or the log that drives the run.
  actors::PlacerFactory sampler_placers() const {
    if (!log_) return placers();
    return [make = placers(), log = *log_] { return make_logged_placer(log, make()); };
  }

  /// Makes the placer once to report invalid settings before an actor's loop would.
  Result<std::unique_ptr<policy::Placer>> checked_placer() const {
    auto placer = make_placer(config_, *task_, starting_);
    if (!placer) return placer;
    const std::size_t bytes = (*placer)->placements_per_episode() * task_->most_ops();
    if (bytes <= kMaxEpisodeBytes) return placer;
    return invalid("policy.groups",
                   "gives episodes with " + format_bytes(static_cast<std::int64_t>(bytes)) +
                       " of placements; the limit is " + format_bytes(std::int64_t{kMaxEpisodeBytes}),
                   "use fewer groups or passes");
  }

  /// Returns the number of episodes at which run.episodes or run.evaluations end a start; 0: no limit.
  Result<std::uint64_t> episode_limit() const {
    const RunSection& r = config_.run;
    const auto within_log = [&](std::uint64_t limit) {
      return !log_ ? limit : limit == 0 ? log_->episodes : std::min(limit, log_->episodes);
    };
    if (r.evaluations == 0) return within_log(r.episodes);
    const auto placer = checked_placer();
    if (!placer) return placer.error();
    const std::uint64_t each = (*placer)->placements_per_episode() + (is_self_critical() ? 1 : 0);
    const std::uint64_t enough = (r.evaluations + each - 1) / each;
    return within_log(r.episodes == 0 ? enough : std::min(enough, r.episodes));
  }

  Result<Unit> spawn_dispatcher(runtime::Node& node) const {
    EMPLACE_TRY_ASSIGN(const auto limit, episode_limit());
    actors::DispatcherOptions options;
    options.placements_per_lease = config_.pipeline.placements_per_lease;
    options.kinds = config_.executor.counts;
    if (options.kinds.empty()) options.kinds = {config_.executor.kind};
    options.demand.max_executors = config_.pipeline.max_executors;
    options.window = config_.executor.window;
    options.window_bytes = window_bytes();
    options.speculate = config_.run.deterministic ? 0 : config_.pipeline.speculate;
    options.episodes = limit;
    options.budget = as_nanos(start_.budget_s);
    options.started = clock_->now();
    options.samplers = samplers_;
    return node.spawn<actors::Dispatcher>(actors::kDispatcher, Home::kIoLoop, task_, options);
  }

  Result<Unit> spawn_recorder(runtime::Node& node) const {
    actors::RecorderOptions options;
    options.commit_every = as_nanos(config_.record.commit_every.seconds);
    options.commit_rows = config_.record.commit_rows;
    options.learned = learns(config_);
    options.saturation_cure = saturation_cure(config_);
    options.keep_every = config_.record.keep_every;
    options.keep_recent = std::max<std::uint64_t>(options.keep_recent, config_.run.lag + 2);
    const auto open = [directory = start_.directory, durability = config_.record.durability] {
      return record::RunWriter::open(directory, durability);
    };
    return node.spawn<actors::Recorder>(actors::kRecorder, Home::kOwnLoop, options,
                                        actors::RunWriterFactory{open},
                                        best_handler(config_, task_, start_, *clock_));
  }

  Result<Unit> spawn_learner(runtime::Node& node) const {
    actors::LearnerOptions options;
    options.batch_episodes = config_.pipeline.batch_episodes;
    options.training = config_.policy.training;
    options.max_staleness = config_.pipeline.max_staleness;
    options.checkpoint_every = config_.record.checkpoint_every;
    options.one_undrawn = policy::Baseline::has_one_less(scoring_options(config_, *task_).baseline);
    options.ordered = config_.run.deterministic;
    options.samplers = samplers_;
    options.versions = std::max<std::uint64_t>(options.versions, config_.run.lag + 2);
    EMPLACE_TRY_ASSIGN(const auto placer, checked_placer());
    if (!config_.run.policy.empty()) {
      EMPLACE_TRY_ASSIGN(const auto learned, has_learned(start_.directory));
      if (!learned) {
        EMPLACE_TRY_ASSIGN(auto warm, load_policy(config_, *placer));
        options.parameters = std::move(warm.checkpoint.parameters);
        if (config_.run.optimizer) options.optimizer = std::move(warm.checkpoint.optimizer);
      }
    }
    options.imitation = {imitation_target(config_, starting_), config_.policy.start_probability};
    return node.spawn<actors::Learner>(actors::kLearner, Home::kOwnLoop, options, placers());
  }

  Result<Unit> spawn_executor(runtime::Node& node, const std::string& name) {
    actors::ExecutorOptions options;
    options.kind = config_.executor.kind;
    options.window = config_.executor.window;
    options.window_bytes = window_bytes();
    if (config_.executor.kind == "fake" && !uses_processes(config_))
      options.delay = as_nanos(config_.executor.delay.seconds);
    options.delay_spread = config_.executor.delay_spread;
    options.node = node.name();
    options.version = build_info().version;
    options.cores = static_cast<std::uint32_t>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 0L));
    options.memory_bytes = memory_bytes();
    if (!light_) return node.spawn<actors::ExecutorActor>(name, Home::kOwnLoop, task_, options, executors());
    if (!measurer_) measurer_ = std::make_shared<actors::Measurer>(task_, options.kind, executors());
    return node.spawn<actors::ExecutorActor>(name, Home::kIoLoop, task_, options, measurer_);
  }

  Result<Unit> spawn_sampler(runtime::Node& node, std::uint32_t controller) const {
    EMPLACE_TRY_ASSIGN(const auto limit, episode_limit());
    actors::SamplerOptions options;
    options.controller = controller;
    options.controllers = config_.pipeline.controllers;
    options.max_outstanding = config_.pipeline.max_outstanding;
    options.learned = learns(config_);
    options.episodes = limit;
    options.batch = config_.run.deterministic ? config_.pipeline.batch_episodes : 0;
    options.lag = config_.run.lag;
    options.redraws = log_ ? 0 : config_.pipeline.redraws;
    options.self_critic = is_self_critical();
    if (auto checked = checked_placer(); !checked) return checked.error();
    return node.spawn<actors::Sampler>(samplers_[controller], Home::kOwnLoop, task_, options,
                                       sampler_placers(),
                                       measures_locally() ? executors() : actors::ExecutorFactory{});
  }

  RunConfig config_;
  TaskPtr task_;
  Start start_;
  const Clock* clock_;
  std::vector<std::string> samplers_;
  std::vector<Placement> starting_;  // [graphs] Empty unless the start is best-heuristic.
  std::optional<DrivingLog> log_;    // Set if a log drives the run.
  /// Whether all actors are fake executors. These mostly wait, so they share the I/O loop and one measurer;
  /// thousands of threads and simulators would dominate their cost.
  bool light_ = false;
  std::shared_ptr<actors::Measurer> measurer_;
};

}  // namespace

Result<Unit> spawn_actors(runtime::Node& node, const RunConfig& config, const TaskPtr& task,
                          const Start& start, std::span<const std::string> actors, const Clock& clock) {
  EMPLACE_TRY_ASSIGN(auto wiring, Wiring::make(config, task, start, actors, clock));
  for (const std::string& actor : actors) EMPLACE_TRY(wiring.spawn(node, actor));
  return Unit{};
}

}  // namespace emplace::launcher

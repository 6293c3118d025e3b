#include "launcher/run/wiring.h"

#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "actors/baseline_tracker.h"
#include "actors/dispatcher.h"
#include "actors/executor_actor.h"
#include "actors/learner.h"
#include "actors/recorder.h"
#include "actors/sampler.h"
#include "base/text/words.h"
#include "base/units.h"
#include "graph/graph_file.h"
#include "heuristics/methods.h"
#include "launcher/build_info.h"
#include "launcher/inputs.h"
#include "launcher/run/placers.h"
#include "placement/device_file.h"
#include "placement/placement_file.h"
#include "runtime/log.h"

namespace emplace::launcher {
namespace {

using actors::TaskPtr;
using runtime::Home;

Nanos nanos(double seconds) { return Nanos{static_cast<std::int64_t>(seconds * 1e9)}; }

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

/// Of this machine; 0: it does not say.
std::uint64_t memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), each = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && each > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(each) : 0;
}

/// [10^9 B] Of the smallest GPU, or of the smallest device where there is none.
double smallest_memory_gb(const DeviceSet& devices) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (const DeviceId device : fast_devices(devices))
    smallest = std::min(smallest, devices[device].memory_bytes);
  return static_cast<double>(smallest) * 1e-9;
}

policy::RewardOptions reward_options(const RunConfig& config, const DeviceSet& devices) {
  const RunConfig::Reward& r = config.reward;
  return {policy::parse_transform(r.transform).value(), r.failing_signal, r.graded_memory, r.penalty_base,
          r.penalty_per_gb + r.penalty_per_memory / smallest_memory_gb(devices)};
}

actors::TrackerOptions tracker_options(const RunConfig& config, const DeviceSet& devices) {
  const RunConfig::Reward& r = config.reward;
  actors::TrackerOptions options;
  options.reward = reward_options(config, devices);
  options.per = r.baseline_per == "host"  ? actors::BaselinePer::kHost
                : r.baseline_per == "run" ? actors::BaselinePer::kRun
                                          : actors::BaselinePer::kController;
  options.outlier = r.outlier;
  options.valid_only_after = r.valid_only_after;
  options.ordered = config.run.deterministic;
  options.kept = std::size_t{4} * config.pipeline.controllers * config.pipeline.max_outstanding + 256;
  options.baseline = {policy::parse_baseline(r.baseline).value(),
                      r.returns == "final"          ? policy::Returns::kFinal
                      : r.returns == "intermediate" ? policy::Returns::kIntermediate
                                                    : policy::Returns::kPlacement,
                      r.discount,
                      r.baseline_decay,
                      r.failing_signal,
                      r.baseline_from_failing_signal,
                      r.baseline_window,
                      r.normalise};
  return options;
}

/// Of placements in one message; what a frame carries.
constexpr std::size_t kMostEpisodeBytes = std::size_t{48} << 20;

/// True if the run has learned anything. Errors: it cannot be read.
Result<bool> has_learned(const std::filesystem::path& directory) {
  const auto db = record::RunDb::open(directory, false);
  if (!db) return db.error();
  const auto checkpoint = (*db)->latest_checkpoint();
  if (!checkpoint) return checkpoint.error();
  return checkpoint->has_value();
}

record::RunFacts run_facts(const RunConfig& config, const actors::Task& task, const Start& start,
                           const Clock& clock) {
  record::RunFacts facts;
  facts.software_version = build_info().version;
  facts.host = task.host;
  const actors::TaskGraph& first = task.graphs.front();
  facts.graph = first.graph.name();
  facts.graph_sha256 = first.sha256;
  facts.devices_json = first.devices.sha256();
  facts.config_toml = to_toml(config, false);
  facts.method = config.policy.method + " from " + start.name;
  facts.seed = config.run.seed;
  facts.started_wall_ns = clock.wall().count();
  facts.num_ops = static_cast<std::uint32_t>(first.graph.num_ops());
  facts.num_devices = static_cast<std::uint32_t>(first.devices.size());
  return facts;
}

/// Who takes part from now on, for the `actors` table.
Result<Unit> note_actors(const RunConfig& config, const actors::Task& task, const Start& start,
                         const Clock& clock) {
  auto db = record::RunDb::open(start.directory, true);
  if (!db) return db.error();
  std::vector<std::string> names{actors::kDispatcher, actors::kRecorder};
  if (learns(config)) names.insert(names.end(), {actors::kTracker, actors::kLearner});
  for (std::uint32_t e = 0; e < config.executor.count && config.reward.source == "executors"; ++e)
    names.push_back(actors::executor_name(e));
  for (std::uint32_t c = 0; c < config.pipeline.controllers; ++c) names.push_back(actors::sampler_name(c));
  for (const std::string& name : names) {
    if (auto added = (*db)->add_actor(name, task.host, clock.wall().count()); !added) return added;
  }
  return (*db)->commit();
}

/// Keeps best.placement.json as good as the database.
actors::BestHandler best_handler(const RunConfig& config, const TaskPtr& task, const Start& start,
                                 const Clock& clock) {
  return [task, directory = start.directory, seed = config.run.seed, method = config.policy.method, &clock](
             std::span<const DeviceId> placement, const messages::EpisodeMeasured& m, std::uint32_t number) {
    const actors::TaskGraph* const one = task->find(m.graph_sha256);
    if (one == nullptr) return;
    Measurement measured;
    measured.valid = true;
    measured.step_time_s = m.step_time_s[number];
    measured.bytes_moved = m.bytes_moved[number];
    const auto first = m.peak_bytes.begin() + std::ptrdiff_t{number} * m.num_devices;
    measured.peak_bytes.assign(first, first + m.num_devices);
    const auto saved = save_placement(
        best_placement_path(directory, *task, *one), one->graph, one->devices, placement, measured,
        {one->sha256, method, m.executor_kinds[m.executor_of[number]], seed, format_wall(clock.wall())});
    if (!saved) runtime::log(runtime::LogLevel::kError, actors::kRecorder, saved.error().context);
  };
}

}  // namespace

Result<std::vector<std::filesystem::path>> graph_files(const RunConfig& config) {
  if (config.input.graphs.empty()) return std::vector<std::filesystem::path>{config.input.graph};
  std::vector<std::filesystem::path> files;
  for (const std::string& input : config.input.graphs) {
    const bool folder = std::filesystem::is_directory(input);
    const std::string pattern = folder ? input + "/*" : input;
    glob_t found{};
    const int failure = ::glob(pattern.c_str(), 0, nullptr, &found);
    for (std::size_t i = 0; failure == 0 && i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
    ::globfree(&found);
    if (failure != 0)
      return invalid("input.graphs: " + printable(input), "holds no graph",
                     "name graph files, a folder of them, or a pattern like 'train-*.json.gz'");
  }
  return files;
}

std::filesystem::path baseline_path(const std::filesystem::path& directory) {
  return directory / "baseline.placement.json";
}

std::filesystem::path best_placement_path(const std::filesystem::path& directory, const actors::Task& task,
                                          const actors::TaskGraph& one) {
  if (task.graphs.size() == 1) return directory / "best.placement.json";
  return directory / "best" / (one.graph.name() + "-" + one.sha256.substr(0, 8) + ".placement.json");
}

Result<TaskPtr> load_task(const RunConfig& config) {
  auto files = graph_files(config);
  if (!files) return files.error();
  auto task = std::make_shared<actors::Task>();
  task->host = host_name();
  for (const std::filesystem::path& file : *files) {
    auto graph = load_graph(file);
    if (!graph) return graph.error();
    auto devices = load_devices(config.input.devices, config.input.reserve);
    if (!devices) return devices.error();
    auto constraints = Constraints::make(*graph, *devices);
    if (!constraints) return constraints.error();
    std::string sha256 = graph_sha256(*graph);
    if (task->find(sha256) != nullptr)
      return invalid(printable(file.string()), "is given twice", "name each graph once");
    task->graphs.push_back(
        {*std::move(graph), *std::move(devices), *std::move(constraints), std::move(sha256)});
  }
  return TaskPtr{std::move(task)};
}

Result<Baselines> find_baselines(const actors::TaskGraph& task, const RunConfig& config, const Clock& clock) {
  Simulator simulator{task.graph, task.devices, simulator_options(config.executor.dispatch).value()};
  const Problem problem{task.graph, task.devices, task.constraints, simulator.costs(), config.run.seed};
  Baselines baselines;
  baselines.bound = lower_bound(task.graph, task.devices, task.constraints, simulator.costs());
  for (const std::string& name : config.compare.baselines) {
    const auto method = find_method(name);
    if (!method) return method.error();
    const Nanos began = clock.now();
    auto found = (*method)->find(problem, simulator);
    record::TableRow row{name,
                         found.ok(),
                         {},
                         0,
                         std::chrono::duration<double>(clock.now() - began).count(),
                         found ? "" : found.error().context};
    if (found) {
      row.measurement = found->measurement;
      row.evaluations = found->evaluations;
      if (found->measurement.valid &&
          (baselines.best.empty() || found->measurement.step_time_s < baselines.best_step_time_s)) {
        baselines.best = std::move(found->placement);
        baselines.best_method = name;
        baselines.best_step_time_s = found->measurement.step_time_s;
      }
    }
    baselines.rows.push_back(std::move(row));
  }
  return baselines;
}

Result<Unit> prepare_start(const RunConfig& config, const actors::Task& task, const Start& start,
                           const Baselines& baselines, const Clock& clock) {
  if (start.resume) {
    auto db = record::RunDb::open(start.directory, false);
    if (!db) return db.error();
    if (auto verified = (*db)->verify(); !verified) return verified.error();
  } else if (auto made = record::RunDb::create(start.directory, run_facts(config, task, start, clock));
             !made) {
    return made.error();
  }
  std::error_code ignored;
  std::filesystem::create_directories(start.directory / "log", ignored);
  if (task.graphs.size() > 1) std::filesystem::create_directories(start.directory / "best", ignored);
  if (start.name == "best-baseline") {
    if (baselines.best.empty())
      return Error{Errc::kNoPlacement,
                   "run.starts: no baseline fits this machine, so none can be started from"};
    const actors::TaskGraph& first = task.graphs.front();
    const auto row = std::find_if(baselines.rows.begin(), baselines.rows.end(),
                                  [&](const auto& r) { return r.method == baselines.best_method; });
    if (auto saved = save_placement(
            baseline_path(start.directory), first.graph, first.devices, baselines.best, row->measurement,
            {first.sha256, baselines.best_method, "sim", config.run.seed, format_wall(clock.wall())});
        !saved)
      return saved;
  }
  return note_actors(config, task, start, clock);
}

namespace {

/// Makes the actors of one process from the config and the run directory alone.
class Wiring {
 public:
  /// Errors: kInvalid, kIo: what is in the run directory cannot be read.
  static Result<Wiring> make(const RunConfig& config, const TaskPtr& task, const Start& start,
                             std::span<const std::string> actors, const Clock& clock) {
    Wiring wiring{config, task, start, clock};
    wiring.light_ = config.executor.kind == "fake" &&
                    std::all_of(actors.begin(), actors.end(),
                                [](const std::string& actor) { return actor.starts_with("executor/"); });
    if (start.name == "best-baseline") {
      const actors::TaskGraph& first = task->graphs.front();
      auto loaded = load_placement(baseline_path(start.directory), first.graph, first.sha256, first.devices);
      if (!loaded) return loaded.error();
      wiring.baseline_ = *std::move(loaded);
    }
    return wiring;
  }

  /// By its name: "executor/3".
  Result<Unit> spawn(runtime::Node& node, const std::string& actor) {
    const std::size_t slash = actor.find('/');
    const std::string role = actor.substr(0, slash);
    const auto number = static_cast<std::uint32_t>(std::stoull(actor.substr(slash + 1)));
    if (role == "dispatcher") return spawn_dispatcher(node);
    if (role == "tracker")
      return node.spawn<actors::BaselineTracker>(actors::kTracker, Home::kIoLoop,
                                                 tracker_options(config_, task_->graphs.front().devices));
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

  std::uint64_t window_bytes() const {
    return std::max<std::uint64_t>(
        actors::DispatcherOptions{}.window_bytes,
        4 * std::uint64_t{config_.pipeline.placements_per_lease} * task_->most_ops());
  }
  bool measures_locally() const { return config_.reward.source == "local"; }
  actors::ExecutorFactory simulators() const {
    SimulatorOptions chosen = simulator_options(config_.executor.dispatch).value();
    chosen.incremental = config_.policy.method.starts_with("placeto");  // Each step moves one group.
    return [options = chosen](const actors::TaskGraph& of) {
      return std::make_unique<Simulator>(of.graph, of.devices, options);
    };
  }
  actors::PlacerFactory placers() const {
    return [config = config_, task = task_, baseline = baseline_] {
      return *make_placer(config, *task, baseline);
    };
  }

  /// Numbers that no policy can have are found here, by name, not on an actor's loop.
  Result<std::unique_ptr<policy::Placer>> checked_placer() const {
    auto placer = make_placer(config_, *task_, baseline_);
    if (!placer) return placer;
    const std::size_t bytes = (*placer)->placements_per_episode() * task_->most_ops();
    if (bytes <= kMostEpisodeBytes) return placer;
    return invalid(
        "policy.groups",
        "makes an episode of " + format_bytes(static_cast<std::int64_t>(bytes)) + " of placements",
        "the most is " + format_bytes(std::int64_t{kMostEpisodeBytes}) + "; take fewer groups or passes");
  }

  /// Where run.episodes or run.evaluations end a start, in episodes; 0: nowhere.
  Result<std::uint64_t> episode_limit() const {
    const RunConfig::Run& r = config_.run;
    if (r.evaluations == 0) return r.episodes;
    const auto placer = checked_placer();
    if (!placer) return placer.error();
    const std::uint64_t each =
        (*placer)->placements_per_episode() + (config_.reward.baseline == "self-critic" ? 1 : 0);
    const std::uint64_t enough = (r.evaluations + each - 1) / each;
    return r.episodes == 0 ? enough : std::min(enough, r.episodes);
  }

  Result<Unit> spawn_dispatcher(runtime::Node& node) const {
    const auto limit = episode_limit();
    if (!limit) return limit.error();
    actors::DispatcherOptions options;
    options.placements_per_lease = config_.pipeline.placements_per_lease;
    options.kinds = config_.executor.counts;
    if (options.kinds.empty()) options.kinds = {config_.executor.kind};
    options.window = config_.executor.window;
    options.window_bytes = window_bytes();
    options.speculate = config_.run.deterministic ? 0 : config_.pipeline.speculate;
    options.episodes = *limit;
    options.budget = nanos(start_.budget_s);
    options.started = clock_->now();
    options.samplers = samplers_;
    return node.spawn<actors::Dispatcher>(actors::kDispatcher, Home::kIoLoop, task_, options);
  }

  Result<Unit> spawn_recorder(runtime::Node& node) const {
    actors::RecorderOptions options;
    options.commit_every = nanos(config_.record.commit_every.seconds);
    options.commit_rows = config_.record.commit_rows;
    options.learned = learns(config_);
    const auto durability =
        config_.record.durability == "disk" ? record::Durability::kDisk : record::Durability::kProcess;
    const auto open = [directory = start_.directory, durability] {
      return record::RunDb::open(directory, true, durability);
    };
    return node.spawn<actors::Recorder>(actors::kRecorder, Home::kOwnLoop, options,
                                        actors::RunDbFactory{open},
                                        best_handler(config_, task_, start_, *clock_));
  }

  Result<Unit> spawn_learner(runtime::Node& node) const {
    const RunConfig::Policy& p = config_.policy;
    actors::LearnerOptions options;
    options.batch_episodes = config_.pipeline.batch_episodes;
    options.steps_per_update = p.steps_per_update;
    options.learning_rate = {static_cast<float>(p.learning_rate),
                             static_cast<float>(p.learning_rate_decay),
                             p.decay_every,
                             p.decay_from,
                             p.linear_over,
                             static_cast<float>(p.learning_rate_end)};
    options.adam.clip_norm = static_cast<float>(p.clip_norm);
    options.max_staleness = config_.pipeline.max_staleness;
    options.checkpoint_every = config_.record.checkpoint_every;
    options.ordered = config_.run.deterministic;
    options.samplers = samplers_;
    options.versions = std::max<std::uint64_t>(options.versions, config_.run.lag + 2);
    const auto placer = checked_placer();
    if (!placer) return placer.error();
    if (!config_.run.policy.empty()) {
      const auto learned = has_learned(start_.directory);
      if (!learned) return learned.error();
      auto warm = *learned ? Result<Bytes>{Bytes{}} : load_policy(config_, **placer);
      if (!warm) return warm.error();
      options.parameters = *std::move(warm);
    }
    if (imitates(config_)) options.imitation = {baseline_, p.start_probability};
    return node.spawn<actors::Learner>(actors::kLearner, Home::kOwnLoop, options, placers());
  }

  Result<Unit> spawn_executor(runtime::Node& node, const std::string& name) {
    actors::ExecutorOptions options;
    options.kind = config_.executor.kind;
    options.window = config_.executor.window;
    options.window_bytes = window_bytes();
    if (config_.executor.kind == "fake") options.delay = nanos(config_.executor.delay.seconds);
    options.delay_spread = config_.executor.delay_spread;
    options.node = node.name();
    options.version = build_info().version;
    options.cores = static_cast<std::uint32_t>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 0L));
    options.memory_bytes = memory_bytes();
    if (!light_) return node.spawn<actors::ExecutorActor>(name, Home::kOwnLoop, task_, options, simulators());
    if (!measurer_) measurer_ = std::make_shared<actors::Measurer>(task_, options.kind, simulators());
    return node.spawn<actors::ExecutorActor>(name, Home::kIoLoop, task_, options, measurer_);
  }

  Result<Unit> spawn_sampler(runtime::Node& node, std::uint32_t controller) const {
    const auto limit = episode_limit();
    if (!limit) return limit.error();
    actors::SamplerOptions options;
    options.controller = controller;
    options.controllers = config_.pipeline.controllers;
    options.max_outstanding = config_.pipeline.max_outstanding;
    options.learned = learns(config_);
    options.episodes = *limit;
    options.batch = config_.run.deterministic ? config_.pipeline.batch_episodes : 0;
    options.lag = config_.run.lag;
    options.redraws = config_.pipeline.redraws;
    options.self_critic = config_.reward.baseline == "self-critic";
    if (auto checked = checked_placer(); !checked) return checked.error();
    return node.spawn<actors::Sampler>(samplers_[controller], Home::kOwnLoop, task_, options, placers(),
                                       measures_locally() ? simulators() : actors::ExecutorFactory{});
  }

  RunConfig config_;
  TaskPtr task_;
  Start start_;
  const Clock* clock_;
  std::vector<std::string> samplers_;
  Placement baseline_;  // Empty unless the start is one.
  /// In a process of nothing but fake executors, which wait more than they work, they share the I/O loop and
  /// what they measure with: thousands of threads and simulators would be all that they cost.
  bool light_ = false;
  std::shared_ptr<actors::Measurer> measurer_;
};

}  // namespace

Result<Unit> spawn_actors(runtime::Node& node, const RunConfig& config, const TaskPtr& task,
                          const Start& start, std::span<const std::string> actors, const Clock& clock) {
  auto wiring = Wiring::make(config, task, start, actors, clock);
  if (!wiring) return wiring.error();
  for (const std::string& actor : actors)
    if (auto spawned = wiring->spawn(node, actor); !spawned) return spawned;
  return Unit{};
}

}  // namespace emplace::launcher

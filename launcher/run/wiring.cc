#include "launcher/run/wiring.h"

#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
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
#include "launcher/run/view_actor.h"
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

policy::RewardOptions reward_options(const RunConfig& config) {
  const RunConfig::Reward& r = config.reward;
  return {policy::parse_transform(r.transform).value(), r.failing_signal, r.graded_memory, r.penalty_base,
          r.penalty_per_gb};
}

actors::TrackerOptions tracker_options(const RunConfig& config) {
  const RunConfig::Reward& r = config.reward;
  actors::TrackerOptions options{
      reward_options(config), {}, r.baseline_shared, r.valid_only_after, 0, config.run.deterministic};
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

/// The graphs of a run; a pattern stands for the files that match it, a folder for the files in it, by name.
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

/// A run that is gone on with: whether it has learned anything. Errors: its record cannot be trusted.
Result<bool> check_record(const std::filesystem::path& directory) {
  auto opened = record::RunDb::open(directory, false);
  if (!opened) return opened.error();
  if (auto verified = (*opened)->verify(); !verified) return verified.error();
  const auto checkpoint = (*opened)->latest_checkpoint();
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

/// Who takes part in this life of the head, for the `actors` table.
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

Result<Unit> spawn_actors(runtime::Node& node, const RunConfig& config, const TaskPtr& task,
                          const Start& start, const Placement& baseline, const Clock& clock) {
  bool begun = false;
  if (start.resume) {
    const auto checked = check_record(start.directory);
    if (!checked) return checked.error();
    begun = *checked;
  } else if (auto made = record::RunDb::create(start.directory, run_facts(config, *task, start, clock));
             !made) {
    return made.error();
  }
  if (task->graphs.size() > 1) {
    std::error_code ignored;
    std::filesystem::create_directories(start.directory / "best", ignored);
  }
  if (auto noted = note_actors(config, *task, start, clock); !noted) return noted;
  const bool learned = learns(config);
  std::vector<std::string> samplers;
  for (std::uint32_t c = 0; c < config.pipeline.controllers; ++c) samplers.push_back(actors::sampler_name(c));
  // Numbers that no policy can have are found here, by name, not on an actor's loop.
  auto first = make_placer(config, *task, baseline);
  if (!first) return first.error();
  const std::size_t episode_bytes = (*first)->placements_per_episode() * task->most_ops();
  if (episode_bytes > kMostEpisodeBytes)
    return invalid(
        "policy.groups",
        "makes an episode of " + format_bytes(static_cast<std::int64_t>(episode_bytes)) + " of placements",
        "the most is " + format_bytes(std::int64_t{kMostEpisodeBytes}) + "; take fewer groups or passes");
  Bytes warm;
  if (!config.run.policy.empty() && !begun) {
    auto loaded = load_policy(config, **first);
    if (!loaded) return loaded.error();
    warm = *std::move(loaded);
  }
  const actors::PlacerFactory placer = [config, task, baseline] {
    return *make_placer(config, *task, baseline);
  };

  std::vector<Result<Unit>> spawned;
  spawned.push_back(node.spawn<ViewActor>(actors::kView, Home::kIoLoop));

  actors::DispatcherOptions dispatcher;
  dispatcher.placements_per_lease = config.pipeline.placements_per_lease;
  dispatcher.window = config.executor.window;
  dispatcher.window_bytes = std::max<std::uint64_t>(
      dispatcher.window_bytes, 4 * std::uint64_t{config.pipeline.placements_per_lease} * task->most_ops());
  dispatcher.episodes = config.run.episodes;
  dispatcher.budget = nanos(start.budget_s);
  dispatcher.started = clock.now();
  dispatcher.samplers = samplers;
  spawned.push_back(node.spawn<actors::Dispatcher>(actors::kDispatcher, Home::kIoLoop, task, dispatcher));
  if (learned)
    spawned.push_back(
        node.spawn<actors::BaselineTracker>(actors::kTracker, Home::kIoLoop, tracker_options(config)));

  actors::RecorderOptions recorder;
  recorder.commit_every = nanos(config.record.commit_every.seconds);
  recorder.commit_rows = config.record.commit_rows;
  recorder.learned = learned;
  const auto open = [directory = start.directory] { return record::RunDb::open(directory, true); };
  spawned.push_back(node.spawn<actors::Recorder>(actors::kRecorder, Home::kOwnLoop, recorder,
                                                 actors::RunDbFactory{open},
                                                 best_handler(config, task, start, clock)));

  if (learned) {
    actors::LearnerOptions learner;
    learner.batch_episodes = config.pipeline.batch_episodes;
    learner.steps_per_update = config.policy.steps_per_update;
    learner.learning_rate = {static_cast<float>(config.policy.learning_rate),
                             static_cast<float>(config.policy.learning_rate_decay),
                             config.policy.decay_every,
                             config.policy.decay_from,
                             config.policy.linear_over,
                             static_cast<float>(config.policy.learning_rate_end)};
    learner.adam.clip_norm = static_cast<float>(config.policy.clip_norm);
    learner.max_staleness = config.pipeline.max_staleness;
    learner.checkpoint_every = config.record.checkpoint_every;
    learner.ordered = config.run.deterministic;
    learner.samplers = samplers;
    learner.versions = std::max<std::uint64_t>(learner.versions, config.run.lag + 2);
    learner.parameters = warm;
    if (imitates(config)) learner.imitation = {baseline, config.policy.start_probability};
    spawned.push_back(node.spawn<actors::Learner>(actors::kLearner, Home::kOwnLoop, learner, placer));
  }
  const actors::ExecutorFactory simulate =
      [options = simulator_options(config.executor.dispatch).value()](const actors::TaskGraph& of) {
        return std::make_unique<Simulator>(of.graph, of.devices, options);
      };
  const bool local = config.reward.source == "local";
  for (std::uint32_t e = 0; e < config.executor.count && !local; ++e) {
    actors::ExecutorOptions executor;
    executor.kind = config.executor.kind;
    executor.window = config.executor.window;
    executor.window_bytes = dispatcher.window_bytes;
    if (config.executor.kind == "fake") executor.delay = nanos(config.executor.delay.seconds);
    executor.delay_spread = config.executor.delay_spread;
    spawned.push_back(node.spawn<actors::ExecutorActor>(actors::executor_name(e), Home::kOwnLoop, task,
                                                        executor, simulate));
  }
  for (std::uint32_t c = 0; c < config.pipeline.controllers; ++c) {
    actors::SamplerOptions sampler;
    sampler.controller = c;
    sampler.controllers = config.pipeline.controllers;
    sampler.max_outstanding = config.pipeline.max_outstanding;
    sampler.learned = learned;
    sampler.episodes = config.run.episodes;
    sampler.batch = config.run.deterministic ? config.pipeline.batch_episodes : 0;
    sampler.lag = config.run.lag;
    sampler.redraws = config.pipeline.redraws;
    sampler.self_critic = config.reward.baseline == "self-critic";
    spawned.push_back(node.spawn<actors::Sampler>(samplers[c], Home::kOwnLoop, task, sampler, placer,
                                                  local ? simulate : actors::ExecutorFactory{}));
  }
  for (const Result<Unit>& one : spawned) {
    if (!one) return one;
  }
  return Unit{};
}

}  // namespace emplace::launcher

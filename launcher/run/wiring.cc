#include "launcher/run/wiring.h"

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
#include "graph/graph_file.h"
#include "heuristics/methods.h"
#include "launcher/build_info.h"
#include "launcher/inputs.h"
#include "launcher/run/view_actor.h"
#include "placement/device_file.h"
#include "placement/placement_file.h"
#include "policy/placers/hierarchical.h"
#include "policy/placers/random_placer.h"
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

policy::HierarchicalOptions hierarchical_options(const RunConfig& config, bool from_baseline) {
  const RunConfig::Policy& p = config.policy;
  policy::HierarchicalOptions o;
  o.groups = p.groups;
  o.type_embedding = p.type_embedding;
  o.grouper_hidden = p.grouper_hidden;
  o.hidden = p.hidden;
  o.placements = p.placements;
  o.tanh_constant = static_cast<float>(p.tanh_constant);
  o.temperature = static_cast<float>(p.temperature);
  o.noise = static_cast<float>(p.noise);
  o.noise_updates = p.noise_updates;
  o.entropy = static_cast<float>(p.entropy);
  o.features = {p.vocabulary, p.feature_outputs, p.feature_dims, p.feature_neighbours, p.scaled_features};
  o.sees_group = p.sees_group;
  o.grouper_scale = static_cast<float>(p.grouper_scale);
  o.grouper_confidence = p.start_at_scopes ? static_cast<float>(p.grouper_confidence) : 0.0f;
  o.table_scale = static_cast<float>(p.table_scale);
  o.start_probability = from_baseline ? static_cast<float>(p.start_probability) : 0.0f;
  return o;
}

/// The scope groups that a Grouper may start at, and which of them share a row of the table.
policy::HierarchicalStart scope_start(const RunConfig& config, const actors::Task& task) {
  const CostTable costs{task.graph, task.devices};
  const Problem problem{task.graph, task.devices, task.constraints, costs, config.run.seed};
  const Grouping grouping = placement_groups(problem, config.policy.groups);
  policy::HierarchicalStart start;
  start.group_of_op.assign(grouping.group_of_op.begin(), grouping.group_of_op.end());
  if (!config.policy.share_time_steps) return start;
  std::map<std::string, std::uint16_t> number;
  for (std::size_t g = 0; g < config.policy.groups; ++g) {
    const std::string label =
        g < grouping.num_groups ? without_time_steps(grouping.labels[g]) : std::string{"(unused)"};
    start.label_of_group.push_back(
        number.try_emplace(label, static_cast<std::uint16_t>(number.size())).first->second);
  }
  return start;
}

policy::RewardOptions reward_options(const RunConfig& config) {
  const RunConfig::Reward& r = config.reward;
  return {policy::parse_transform(r.transform).value(), r.failing_signal, r.graded_memory, r.penalty_base,
          r.penalty_per_gb};
}

actors::BaselineOptions baseline_options(const RunConfig& config) {
  const RunConfig::Reward& r = config.reward;
  return {reward_options(config), r.baseline_decay, r.baseline_from_failing_signal,
          r.valid_only_after,     r.normalise,      config.run.deterministic};
}

/// Where a run that is gone on with stands.
struct Resumed {
  std::uint64_t next_seq = 1, next_episode = 0, updates = 0;
  double best_step_time_s = 0;
  record::CheckpointRow checkpoint;
};

Result<Resumed> read_resumed(const std::filesystem::path& directory) {
  auto opened = record::RunDb::open(directory, false);
  if (!opened) return opened.error();
  record::RunDb& db = **opened;
  if (auto verified = db.verify(); !verified) return verified.error();
  Resumed resumed;
  const auto counters = db.counters();
  if (!counters) return counters.error();
  resumed.next_seq = counters->episodes + 1;
  const auto episodes = db.next_episode();
  const auto best = db.best();
  const auto updates = db.updates();
  auto checkpoint = db.latest_checkpoint();
  if (!episodes || !best || !updates || !checkpoint)
    return Error{Errc::kIo, "run.db cannot be read to go on with"};
  resumed.next_episode = *episodes;
  if (*best) resumed.best_step_time_s = (**best).step_time_s;
  if (!updates->empty()) resumed.updates = updates->back().update;
  if (*checkpoint) resumed.checkpoint = **std::move(checkpoint);
  return resumed;
}

record::RunFacts run_facts(const RunConfig& config, const actors::Task& task, const Start& start,
                           const Clock& clock) {
  record::RunFacts facts;
  facts.software_version = build_info().version;
  facts.host = task.host;
  facts.graph = task.graph.name();
  facts.graph_sha256 = task.graph_sha256;
  facts.devices_json = task.devices.sha256();
  facts.config_toml = to_toml(config, false);
  facts.method = config.policy.method + " from " + start.name;
  facts.seed = config.run.seed;
  facts.started_wall_ns = clock.wall().count();
  facts.num_ops = static_cast<std::uint32_t>(task.graph.num_ops());
  facts.num_devices = static_cast<std::uint32_t>(task.devices.size());
  return facts;
}

/// Who takes part in this life of the head, for the `actors` table.
Result<Unit> note_actors(const RunConfig& config, const actors::Task& task, const Start& start,
                         const Clock& clock) {
  auto db = record::RunDb::open(start.directory, true);
  if (!db) return db.error();
  std::vector<std::string> names{actors::kDispatcher, actors::kRecorder};
  if (config.policy.method != "random") names.insert(names.end(), {actors::kTracker, actors::kLearner});
  for (std::uint32_t e = 0; e < config.executor.count; ++e) names.push_back(actors::executor_name(e));
  for (std::uint32_t c = 0; c < config.pipeline.controllers; ++c) names.push_back(actors::sampler_name(c));
  for (const std::string& name : names) {
    if (auto added = (*db)->add_actor(name, task.host, clock.wall().count()); !added) return added;
  }
  return (*db)->commit();
}

/// Keeps best.placement.json as good as the database.
actors::BestHandler best_handler(const RunConfig& config, const TaskPtr& task, const Start& start,
                                 const Clock& clock) {
  return [task, path = start.directory / "best.placement.json", seed = config.run.seed,
          method = config.policy.method, &clock](std::span<const DeviceId> placement,
                                                 const messages::EpisodeMeasured& m, std::uint32_t number) {
    Measurement measured;
    measured.valid = true;
    measured.step_time_s = m.step_time_s[number];
    measured.bytes_moved = m.bytes_moved[number];
    const auto first = m.peak_bytes.begin() + std::ptrdiff_t{number} * m.num_devices;
    measured.peak_bytes.assign(first, first + m.num_devices);
    const auto saved = save_placement(path, task->graph, task->devices, placement, measured,
                                      {task->graph_sha256, method, m.executor_kinds[m.executor_of[number]],
                                       seed, format_wall(clock.wall())});
    if (!saved) runtime::log(runtime::LogLevel::kError, actors::kRecorder, saved.error().context);
  };
}

}  // namespace

Result<TaskPtr> load_task(const RunConfig& config) {
  auto graph = load_graph(config.input.graph);
  if (!graph) return graph.error();
  auto devices = load_devices(config.input.devices, config.input.reserve);
  if (!devices) return devices.error();
  auto constraints = Constraints::make(*graph, *devices);
  if (!constraints) return constraints.error();
  std::string sha256 = graph_sha256(*graph);
  return TaskPtr{std::make_shared<actors::Task>(actors::Task{
      *std::move(graph), *std::move(devices), *std::move(constraints), std::move(sha256), host_name()})};
}

Result<Baselines> find_baselines(const actors::Task& task, const RunConfig& config, const Clock& clock) {
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

actors::PlacerFactory placer_factory(const RunConfig& config, const TaskPtr& task,
                                     const Placement& baseline) {
  return [config, task, baseline]() -> std::unique_ptr<policy::Placer> {
    if (config.policy.method == "random") {
      const CostTable costs{task->graph, task->devices};
      const Problem problem{task->graph, task->devices, task->constraints, costs, config.run.seed};
      return std::make_unique<policy::RandomPlacer>(placement_groups(problem, config.policy.groups),
                                                    task->devices, task->constraints,
                                                    config.policy.placements, config.run.seed);
    }
    policy::HierarchicalStart start;
    if (config.policy.start_at_scopes || !baseline.empty()) start = scope_start(config, *task);
    start.placement = baseline;
    auto planner = policy::HierarchicalPlanner::make(task->graph, task->devices, task->constraints,
                                                     hierarchical_options(config, !baseline.empty()),
                                                     std::move(start), config.run.seed);
    return *std::move(planner);
  };
}

Result<Unit> spawn_actors(runtime::Node& node, const RunConfig& config, const TaskPtr& task,
                          const Start& start, const Placement& baseline, const Clock& clock) {
  Resumed resumed;
  if (start.resume) {
    auto read = read_resumed(start.directory);
    if (!read) return read.error();
    resumed = *std::move(read);
  } else if (auto made = record::RunDb::create(start.directory, run_facts(config, *task, start, clock));
             !made) {
    return made.error();
  }
  if (auto noted = note_actors(config, *task, start, clock); !noted) return noted;
  const bool learned = config.policy.method != "random";
  if (learned && config.policy.method == "hierarchical") {
    // Numbers that no policy can have are found here, by name, not on an actor's loop.
    auto tried = policy::HierarchicalPlanner::make(task->graph, task->devices, task->constraints,
                                                   hierarchical_options(config, false), {}, config.run.seed);
    if (!tried) return tried.error();
  }
  std::vector<std::string> samplers;
  for (std::uint32_t c = 0; c < config.pipeline.controllers; ++c) samplers.push_back(actors::sampler_name(c));
  const actors::PlacerFactory placer = placer_factory(config, task, baseline);

  std::vector<Result<Unit>> spawned;
  spawned.push_back(node.spawn<ViewActor>(actors::kView, Home::kIoLoop));

  actors::DispatcherOptions dispatcher;
  dispatcher.placements_per_lease = config.pipeline.placements_per_lease;
  dispatcher.window = config.executor.window;
  dispatcher.window_bytes = std::max<std::uint64_t>(
      dispatcher.window_bytes,
      4 * std::uint64_t{config.pipeline.placements_per_lease} * task->graph.num_ops());
  dispatcher.episodes = config.run.episodes;
  dispatcher.budget = nanos(start.budget_s);
  dispatcher.samplers = samplers;
  spawned.push_back(node.spawn<actors::Dispatcher>(actors::kDispatcher, Home::kIoLoop, task, dispatcher));
  if (learned)
    spawned.push_back(
        node.spawn<actors::BaselineTracker>(actors::kTracker, Home::kIoLoop, baseline_options(config)));

  actors::RecorderOptions recorder;
  recorder.commit_every = nanos(config.record.commit_every.seconds);
  recorder.commit_rows = config.record.commit_rows;
  recorder.first_seq = resumed.next_seq;
  recorder.best_step_time_s = resumed.best_step_time_s;
  recorder.learned = learned;
  const auto open = [directory = start.directory] { return record::RunDb::open(directory, true); };
  spawned.push_back(node.spawn<actors::Recorder>(actors::kRecorder, Home::kOwnLoop, recorder,
                                                 actors::RunDbFactory{open},
                                                 best_handler(config, task, start, clock)));

  if (learned) {
    actors::LearnerOptions learner;
    learner.batch_episodes = config.pipeline.batch_episodes;
    learner.learning_rate = {static_cast<float>(config.policy.learning_rate),
                             static_cast<float>(config.policy.learning_rate_decay), config.policy.decay_every,
                             config.policy.decay_from};
    learner.adam.clip_norm = static_cast<float>(config.policy.clip_norm);
    learner.max_staleness = config.pipeline.max_staleness;
    learner.checkpoint_every = config.record.checkpoint_every;
    learner.ordered = config.run.deterministic;
    learner.samplers = samplers;
    learner.version = learner.updates = resumed.updates;
    learner.parameters = resumed.checkpoint.parameters;
    learner.optimizer = resumed.checkpoint.optimizer;
    spawned.push_back(node.spawn<actors::Learner>(actors::kLearner, Home::kOwnLoop, learner, placer));
  }
  for (std::uint32_t e = 0; e < config.executor.count; ++e) {
    actors::ExecutorOptions executor;
    executor.kind = config.executor.kind;
    executor.window = config.executor.window;
    executor.window_bytes = dispatcher.window_bytes;
    if (config.executor.kind == "fake") executor.delay = nanos(config.executor.delay.seconds);
    executor.delay_spread = config.executor.delay_spread;
    const actors::ExecutorFactory simulate = [task,
                                              options = simulator_options(config.executor.dispatch).value()] {
      return std::make_unique<Simulator>(task->graph, task->devices, options);
    };
    spawned.push_back(node.spawn<actors::ExecutorActor>(actors::executor_name(e), Home::kOwnLoop, task,
                                                        executor, simulate));
  }
  for (std::uint32_t c = 0; c < config.pipeline.controllers; ++c) {
    actors::SamplerOptions sampler;
    sampler.controller = c;
    sampler.controllers = config.pipeline.controllers;
    sampler.max_outstanding = config.pipeline.max_outstanding;
    sampler.learned = learned;
    sampler.first_episode = resumed.next_episode;
    sampler.episodes = config.run.episodes;
    sampler.batch = config.run.deterministic ? config.pipeline.batch_episodes : 0;
    sampler.lag = config.run.lag;
    spawned.push_back(node.spawn<actors::Sampler>(samplers[c], Home::kOwnLoop, task, sampler, placer));
  }
  for (const Result<Unit>& one : spawned) {
    if (!one) return one;
  }
  return Unit{};
}

}  // namespace emplace::launcher

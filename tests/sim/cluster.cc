#include "tests/sim/cluster.h"

#include <algorithm>
#include <array>

#include "actors/baseline_tracker.h"
#include "actors/executor_actor.h"
#include "actors/learner.h"
#include "actors/recorder.h"
#include "actors/sampler.h"
#include "base/hash.h"
#include "executor/polled_executor.h"
#include "executor/sim/simulator.h"
#include "policy/placers/hierarchical.h"
#include "tests/sim/damage.h"
#include "tests/sim/disk.h"
#include "tests/sim/empty_run.h"
#include "tests/sim/fault_injector.h"
#include "tests/sim/launcher.h"
#include "tests/sim/tracer.h"
#include "tests/support/sample_graphs.h"

namespace emplace::sim_test {
namespace {

using actors::TaskPtr;
using runtime::sim::kHead;
using runtime::sim::NodeId;
using std::chrono::milliseconds;

/// Far more than any run needs: beyond it actors only exchange messages without progress.
constexpr std::uint64_t kMaxSteps = 200'000;
/// The order of launcher/cluster/roles.h: actors that request end before actors that answer.
constexpr int kHeadStep = 6;
/// Seven steps of a little over a second, twice if the launcher is killed meanwhile, and the time until the
/// run is resumed.
constexpr Nanos kEndInOrder = std::chrono::seconds{30};

/// Small graphs, each made once.
const TaskPtr& task(std::size_t which) {
  static const std::array<TaskPtr, kGraphs> tasks = [] {
    std::array<TaskPtr, kGraphs> made;
    for (std::size_t i = 0; i < made.size(); ++i) {
      Rng rng{i, Purpose::kTest};
      OpGraph graph = testing::random_graph(rng, ops_of(i));
      // The last one has machines so small that some placements do not fit.
      DeviceSet devices = testing::sample_devices(2 + i % 2, false, i == 3 ? 64 : 1 << 30);
      Constraints constraints = *Constraints::make(graph, devices);
      made[i] = actors::make_task(
          {std::move(graph), std::move(devices), std::move(constraints), "graph" + std::to_string(i)},
          "simulated");
    }
    return made;
  }();
  return tasks.at(which);
}

/// Measures as the simulator does, but asynchronously: the executor has to poll.
class PolledSimulator final : public Executor, public PolledExecutor {
 public:
  PolledSimulator(const actors::TaskGraph& of, const World& world, Nanos takes)
      : simulator_{of.graph, of.devices}, world_{world}, takes_{takes} {}
  std::string_view kind() const override { return "sim"; }
  Result<Unit> measure(std::span<const DeviceId>, Measurement&) override {
    return Error{Errc::kRunFailed, "measure() must not be called"};
  }
  void start(std::span<const DeviceId> placement, std::span<const DeviceId>) override {
    placement_.assign(placement.begin(), placement.end());
    until_ = world_.now() + takes_;
  }
  Result<bool> poll(Measurement& out) override {
    if (world_.now() < until_) return false;
    if (auto done = simulator_.measure(placement_, out); !done) return done.error();
    return true;
  }
  bool broken() const override { return false; }

 private:
  Simulator simulator_;
  const World& world_;
  const Nanos takes_;
  Placement placement_;
  Nanos until_{0};
};

/// Reports the progress of the run to the launcher, if there is one.
class View final : public runtime::Actor {
 public:
  explicit View(Launcher* launcher) : launcher_{launcher} {}
  void on_message(runtime::Context&, const runtime::Incoming& incoming) override {
    if (launcher_ != nullptr && incoming.envelope.type == messages::DispatchProgress::kType)
      launcher_->on_progress();
  }

 private:
  Launcher* const launcher_;
};

/// Decides what a crash of a node does to its files: its machine loses power too, or, if `some_are_killed`,
/// half of the time only the process is killed.
class DiskKeeper final : public runtime::sim::Observer {
 public:
  DiskKeeper(Disk& disk, std::string node, bool some_are_killed, std::uint64_t seed)
      : disk_{disk},
        node_{std::move(node)},
        some_are_killed_{some_are_killed},
        rng_{seed, Purpose::kSimulation, 11} {}
  void on_node(const std::string& node, Event event) override {
    if (event != Event::kCrashed || node != node_) return;
    some_are_killed_&& rng_.below(2) == 0 ? disk_.kill_process() : disk_.cut_power();
  }

 private:
  Disk& disk_;
  const std::string node_;
  const bool some_are_killed_;
  Rng rng_;
};

policy::HierarchicalOptions placer_options(const Swarm& swarm) {
  policy::HierarchicalOptions options;
  options.groups = 3;
  options.type_embedding = 2;
  options.hidden = 4;
  options.grouper_hidden = 4;
  options.placements = swarm.placements;
  options.features = {.vocabulary = 4, .outputs = 1, .dims = 1, .neighbours = 2};
  return options;
}

/// Judges a run whose record has flipped bits. Until the run notices the damage, a learner that restarts may
/// learn from damaged episodes and then draw others than before. Only this violation of G11 is excused.
void judge_damage(const Disk& disk, const std::string& directory, HistoryChecker& history, Verdict& verdict,
                  Outcome& outcome) {
  if (const auto complaint = complaint_of(directory)) {
    if (!names_damage(*complaint))
      return verdict.broken("rot is noticed (G19)", "the error names no damage: " + *complaint);
    outcome.noticed = true;
  }
  if (!outcome.noticed) return;
  if (verdict.first() && verdict.first()->starts_with("reproducible (G11)")) verdict.excuse();
  if (!verdict.first()) check_salvage(disk, directory, history, verdict);
}

}  // namespace

Outcome play(const Swarm& swarm, const std::string& directory, const Trace& trace) {
  Disk disk{swarm.seed};
  put_empty_run(disk, directory);
  Verdict verdict;
  Outcome outcome;
  HistoryChecker history{swarm, verdict};
  const TaskPtr& problem = task(swarm.graph);
  {
    World world{{.seed = swarm.seed,
                 .shuffle = swarm.shuffle,
                 .restarts_per_minute = 1'000,
                 .keep_log = false,
                 .local_delay = swarm.local_delay,
                 .handler_delay = swarm.has(Fault::kSlowHandlers) ? Nanos{milliseconds{5}} : Nanos{0}}};
    Tracer tracer{world, trace};
    if (trace) world.observe(&tracer);
    OrderChecker order{verdict};
    LeaseChecker leases{world, swarm, verdict};
    for (runtime::sim::Observer* observer :
         std::initializer_list<runtime::sim::Observer*>{&order, &leases, &history})
      world.observe(observer);
    runtime::sim::NetworkOptions network;
    network.queue = swarm.queue;
    network.checksum = !swarm.has(Fault::kRawFlip);
    world.network().configure(network);
    std::optional<Launcher> launcher;
    if (swarm.has_launcher()) {
      launcher.emplace(world, swarm, verdict);
      launcher->add_node(kHead, kHeadStep);
      world.observe(&*launcher);
    }
    Launcher* const watching = launcher ? &*launcher : nullptr;
    FaultInjector injector{world, swarm, disk, watching};
    Rng slow{swarm.seed, Purpose::kSimulation, 6};
    if (swarm.has(Fault::kSlowDisk)) disk.on_sync = [&] { world.occupy(Nanos{slow.below(50'000'000)}); };
    if (swarm.has(Fault::kDiskFails)) disk.sync_fails = 0.05;
    if (swarm.has(Fault::kSyncLoses)) {
      disk.sync_fails = 0.2;
      disk.failed_sync_loses = true;
    }
    disk.names_need_sync = swarm.has(Fault::kNamesLost);

    const auto add_node = [&](const std::string& name, int end_step) {
      const NodeId node = world.add_node(name);
      injector.add_node(node);
      if (launcher) launcher->add_node(node, end_step);
      return node;
    };
    const auto place = [&](Fault apart, const std::string& name, int end_step) {
      return swarm.has(apart) ? add_node("node of " + name, end_step) : kHead;
    };
    const auto spawn = [&](NodeId node, const std::string& name, runtime::ActorFactory factory) {
      tracer.name(name);
      return world.spawn_on(node, name, std::move(factory));
    };
    const actors::PlacerFactory placer = [&]() -> std::unique_ptr<policy::Placer> {
      const actors::TaskGraph& one = problem->graphs[0];
      return *policy::HierarchicalPlanner::make({{{&one.graph, &one.devices, &one.constraints}, {}}},
                                                placer_options(swarm), swarm.seed);
    };

    actors::DispatcherOptions dispatcher;
    dispatcher.episodes = swarm.episodes;
    dispatcher.placements_per_lease = swarm.placements_per_lease;
    dispatcher.window = swarm.window;
    dispatcher.window_bytes = swarm.window_bytes;
    dispatcher.evaluation_limit = swarm.evaluation_limit;
    dispatcher.speculate = swarm.speculate;
    dispatcher.speculate_from = swarm.speculate_from;
    dispatcher.drain = std::chrono::hours{1};  // The run must not end before it is drained.
    for (std::uint32_t c = 0; c < swarm.samplers; ++c) dispatcher.samplers.push_back(actors::sampler_name(c));
    spawn(kHead, actors::kView, [watching] { return std::make_unique<View>(watching); });
    injector.add_thrower(Fault::kDispatcherThrows, spawn(kHead, actors::kDispatcher, [&, dispatcher] {
                           return std::make_unique<actors::Dispatcher>(problem, dispatcher);
                         }));
    actors::TrackerOptions tracker;
    tracker.ordered = swarm.ordered;
    injector.add_thrower(Fault::kTrackerThrows,
                         spawn(place(Fault::kTrackerApart, actors::kTracker, 3), actors::kTracker,
                               [tracker] { return std::make_unique<actors::BaselineTracker>(tracker); }));
    const NodeId recorders = place(Fault::kRecorderApart, actors::kRecorder, 4);
    DiskKeeper keeper{disk, world.node_name(recorders), swarm.has(Fault::kSyncLoses), swarm.seed};
    world.observe(&keeper);
    injector.add_thrower(
        Fault::kRecorderThrows, spawn(recorders, actors::kRecorder, [directory] {
          return std::make_unique<actors::Recorder>(
              actors::RecorderOptions{},
              actors::RunWriterFactory{[directory] { return record::RunWriter::open(directory); }},
              actors::BestHandler{
                  [](std::span<const DeviceId>, const messages::EpisodeMeasured&, std::uint32_t) {}});
        }));
    actors::LearnerOptions learner;
    learner.batch_episodes = swarm.batch;
    learner.ordered = swarm.ordered;
    learner.checkpoint_every = 5;
    learner.samplers = dispatcher.samplers;
    injector.add_thrower(
        Fault::kLearnerThrows,
        spawn(place(Fault::kLearnerApart, actors::kLearner, 2), actors::kLearner,
              [learner, placer] { return std::make_unique<actors::Learner>(learner, placer); }));
    actors::ExecutorOptions executor;
    executor.window = swarm.window;
    executor.window_bytes = swarm.window_bytes;
    executor.delay = swarm.executor_delay;
    executor.delay_spread = swarm.delay_spread;
    std::vector<NodeId> nodes;
    for (std::uint32_t n = 0; n < swarm.executor_nodes; ++n)
      nodes.push_back(add_node("executors " + std::to_string(n), 1));
    for (std::uint32_t e = 0; e < swarm.executors; ++e)
      spawn(nodes[e % nodes.size()], actors::executor_name(e), [&, executor, e]() mutable {
        if (e % 2 == 0)
          return std::make_unique<actors::ExecutorActor>(
              problem, executor, actors::ExecutorFactory{[](const actors::TaskGraph& of) {
                return std::make_unique<Simulator>(of.graph, of.devices);
              }});
        // Every other executor is polled.
        executor.delay = Nanos{0};
        return std::make_unique<actors::ExecutorActor>(
            problem, executor, actors::ExecutorFactory{[&](const actors::TaskGraph& of) {
              return std::make_unique<PolledSimulator>(of, world, swarm.executor_delay);
            }});
      });
    for (std::uint32_t c = 0; c < swarm.samplers; ++c) {
      actors::SamplerOptions sampler;
      sampler.controller = c;
      sampler.controllers = swarm.samplers;
      sampler.max_outstanding = swarm.max_outstanding;
      sampler.episodes = swarm.episodes;
      sampler.batch = swarm.ordered ? swarm.batch : 0;
      const std::string name = actors::sampler_name(c);
      injector.add_thrower(Fault::kSamplerThrows,
                           spawn(place(Fault::kSamplersApart, name, 0), name, [&, sampler, placer] {
                             return std::make_unique<actors::Sampler>(problem, sampler, placer);
                           }));
    }

    const auto over = [&] {
      if (launcher) {
        if (const auto why = world.take_stopped()) {
          injector.heal();
          launcher->on_ending(*why);
        }
      }
      const bool ended = launcher ? launcher->finished().has_value() : world.stopped().has_value();
      return ended || verdict.first() || world.steps() > kMaxSteps;
    };
    if (launcher) launcher->begin();
    injector.begin();
    world.advance(swarm.safety, over);
    injector.heal();
    world.note("healed");
    const Nanos liveness = swarm.liveness + (launcher ? kEndInOrder : Nanos{0});
    if (!over()) world.advance(liveness, over);
    const std::optional<std::string> ended = launcher ? launcher->finished() : world.stopped();
    if (!ended && !verdict.first()) {
      const std::string so_far = std::to_string(history.proposed()) + " episodes proposed, " +
                                 std::to_string(history.acknowledged()) + " acknowledged, " +
                                 std::to_string(history.updates()) + " updates made, of " +
                                 std::to_string(swarm.episodes) + " episodes";
      if (world.steps() > kMaxSteps)
        verdict.broken("no storm (G4)", std::to_string(kMaxSteps) + " steps; " + so_far);
      else
        verdict.broken("no endless wait (G21)", "not at its end " +
                                                    std::to_string(liveness / std::chrono::seconds{1}) +
                                                    " s after the last fault: " + so_far);
    }
    outcome.rotted = injector.rotted();
    if (ended && !ended->empty()) {
      outcome.noticed = outcome.rotted && names_damage(*ended);
      if (!outcome.noticed) verdict.broken("a clean end (G9)", *ended);
    }
    // Twice: the recorder's final messages follow those of the others.
    for (int round = 0; round < 2 && !launcher && !verdict.first(); ++round) {
      world.stop();
      world.advance(std::chrono::seconds{1});
    }
    outcome.simulated = world.now();
    outcome.steps = world.steps();
    outcome.digest = world.digest();
    outcome.faults = injector.injected();
    outcome.fenced = leases.fenced();
    outcome.network = world.network().counters();
  }
  if (outcome.rotted) judge_damage(disk, directory, history, verdict, outcome);
  if (!verdict.first() && !outcome.noticed) {
    auto db = record::RunReader::open(directory, record::Reading::kInProgress);
    if (!db) {
      verdict.broken("log == history", db.error().context);
    } else {
      history.check(**db);
      const auto updates = (*db)->log().updates();
      if (updates && !updates->empty()) outcome.parameters_sha256 = updates->back().parameters_sha256;
    }
  }
  outcome.digest = hash64(std::as_bytes(std::span{outcome.parameters_sha256}), outcome.digest);
  outcome.broken = verdict.first();
  return outcome;
}

}  // namespace emplace::sim_test

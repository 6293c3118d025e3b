#include "tests/sim/cluster.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>

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
#include "tests/sim/launcher.h"
#include "tests/support/sample_graphs.h"

namespace emplace::sim_test {
namespace {

using actors::TaskPtr;
using runtime::sim::kHead;
using runtime::sim::NodeId;
using std::chrono::milliseconds;

/// Far more than any run needs: beyond it actors only keep each other busy.
constexpr std::uint64_t kMaxSteps = 200'000;
/// As launcher/cluster/roles.h orders the end: who asks before who answers.
constexpr int kHeadStep = 6;
/// Seven steps of some more than a second, once more if the launcher is killed meanwhile, and the time until
/// somebody resumes the run.
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

/// Measures as the simulator does, elsewhere and in its own time: who asks has to look again.
class PolledSimulator final : public Executor, public PolledExecutor {
 public:
  PolledSimulator(const actors::TaskGraph& of, const World& world, Nanos takes)
      : simulator_{of.graph, of.devices}, world_{world}, takes_{takes} {}
  std::string_view kind() const override { return "sim"; }
  Result<Unit> measure(std::span<const DeviceId>, Measurement&) override {
    return Error{Errc::kRunFailed, "nobody may wait for it"};
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

/// Tells the launcher how the run goes, if there is one.
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

/// Everything that happens, one line each.
class Tracer final : public runtime::sim::Observer {
 public:
  Tracer(const World& world, Trace trace) : world_{world}, trace_{std::move(trace)} {}
  void name(const std::string& actor) { names_[runtime::actor_id(actor)] = actor; }
  void on_sent(const Packet& packet) override { line("sent     ", packet); }
  void on_refused(const Packet& packet) override { line("refused  ", packet); }
  void on_delivering(const Packet& packet) override { line("delivered", packet); }
  void on_actor(const std::string& actor, Event event) override { line(word(event), actor); }
  void on_node(const std::string& node, Event event) override { line(word(event), "node " + node); }
  void on_note(std::string_view what) override { line("note     ", std::string{what}); }

 private:
  static const char* word(Event event) {
    constexpr std::array kWords{"started  ", "threw    ", "crashed  ", "paused   ", "resumed  "};
    return kWords.at(static_cast<std::size_t>(event));
  }
  void line(const char* what, const std::string& text) {
    std::array<char, 40> head;
    std::snprintf(head.data(), head.size(), "%14.6f s  ",
                  std::chrono::duration<double>(world_.now()).count());
    trace_(head.data() + std::string{what} + "  " + text);
  }
  void line(const char* what, const Packet& packet) {
    line(what, "#" + std::to_string(packet.number) + " " + messages::type_name(packet.envelope.type) + "  " +
                   names_[packet.envelope.from] + " -> " + names_[packet.envelope.to] + details(packet));
  }
  static std::string details(const Packet& packet) {
    if (const auto proposal = messages::decode_body<messages::PlacementProposed>(packet.body);
        proposal && packet.envelope.type == messages::PlacementProposed::kType)
      return "  episode " + std::to_string(proposal->episode) + " placement " +
             std::to_string(proposal->placement_id);
    if (const auto lease = messages::decode_body<messages::LeaseGranted>(packet.body);
        lease && packet.envelope.type == messages::LeaseGranted::kType)
      return "  placement " + std::to_string(lease->placement_id) + " lease " +
             std::to_string(lease->lease_epoch);
    if (const auto measured = messages::decode_body<messages::PlacementMeasured>(packet.body);
        measured && packet.envelope.type == messages::PlacementMeasured::kType)
      return "  lease " + std::to_string(measured->lease_epoch);
    if (const auto beat = messages::decode_body<messages::Heartbeat>(packet.body);
        beat && packet.envelope.type == messages::Heartbeat::kType) {
      std::string held = "  holds";
      for (const std::uint64_t lease : beat->leases) held += " " + std::to_string(lease);
      return held;
    }
    if (const auto now = messages::decode_body<messages::DispatchProgress>(packet.body);
        now && packet.envelope.type == messages::DispatchProgress::kType) {
      std::string flight = "  " + std::to_string(now->in_flight) + " in flight";
      for (const auto& use : now->executors)
        flight += ", " + std::to_string(use.in_flight) + " at " + use.executor;
      return flight + ", " + std::to_string(now->leases.expired) + " leases expired";
    }
    return "";
  }
  const World& world_;
  Trace trace_;
  std::map<ActorId, std::string> names_;
};

/// What becomes of the files of a process that dies: its machine has lost power too, or, if
/// `some_are_killed`, half of the time only the process is gone.
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

/// What befalls nodes, one thing after the other, until the safety phase ends.
class Injector {
  /// [bits] More would be noticed at once, and hide what one does.
  static constexpr std::uint32_t kMaxRot = 3;

 public:
  /// `launcher`: who starts again what dies; null: time does.
  Injector(World& world, const Swarm& swarm, Disk& disk, Launcher* launcher)
      : world_{world},
        swarm_{swarm},
        disk_{disk},
        launcher_{launcher},
        rng_{swarm.seed, Purpose::kSimulation, 5} {}

  void add_node(NodeId node) { nodes_.push_back(node); }
  void add_thrower(Fault fault, ActorId actor) {
    if (swarm_.has(fault)) throwers_.push_back(actor);
  }
  std::uint64_t injected() const { return injected_; }
  bool rotted() const { return rotted_ > 0; }

  void begin() {
    for (const NodeId node : nodes_) world_.network().set_faults(node, swarm_.link);
    constexpr std::array kOfNodes{Fault::kCut,       Fault::kPartition, Fault::kOneWay,
                                  Fault::kClog,      Fault::kPause,     Fault::kCrash,
                                  Fault::kReplyLost, Fault::kThrow,     Fault::kWallStep};
    for (const Fault fault : kOfNodes)
      if (swarm_.has(fault)) choices_.push_back(fault);
    for (const Fault fault : {Fault::kHeadCrash, Fault::kHeadReplyLost, Fault::kHeadPause, Fault::kDiskFull,
                              Fault::kLeave, Fault::kReadFails, Fault::kExhausted, Fault::kBitRot,
                              Fault::kLauncherPause, Fault::kLauncherKill, Fault::kStartFails})
      if (swarm_.has(fault)) choices_.push_back(fault);
    if (!throwers_.empty()) choices_.push_back(Fault::kRecorderThrows);  // Stands for any of them.
    if (!choices_.empty()) next();
  }

  /// The end of the safety phase: all is well from now on.
  void heal() {
    if (std::exchange(healed_, true)) return;
    disk_.full = false;
    disk_.sync_fails = disk_.read_fails = 0;
    disk_.exhausted = Exhausted::kNothing;
    for (const NodeId node : nodes_) {
      if (leaving_.contains(node)) world_.crash_node(node);
      world_.network().set_faults(node, {});
      world_.network().block(node, false, false);
      world_.network().clog(node, Nanos{0});
      heal(node);
    }
    heal(kHead);
    if (launcher_ != nullptr) launcher_->heal();
  }

 private:
  void heal(NodeId node) { launcher_ == nullptr ? world_.heal_node(node) : world_.calm_node(node); }
  void crash(NodeId node, Nanos down_for) {
    world_.crash_node(node);
    if (launcher_ == nullptr) later(down_for, [this, node] { world_.restart_node(node); });
  }
  void crash_before_reply(NodeId node, Nanos down_for) {
    world_.crash_before_reply(node, launcher_ == nullptr ? std::optional{down_for} : std::nullopt);
  }
  Nanos between(double least_s, double most_s) {
    return Nanos{static_cast<std::int64_t>((least_s + rng_.uniform_double() * (most_s - least_s)) * 1e9)};
  }
  void next() {
    const double mean_s = std::chrono::duration<double>(swarm_.between_faults).count();
    const double wait_s = -std::log(1 - rng_.uniform_double()) * mean_s;
    world_.at(world_.now() + Nanos{static_cast<std::int64_t>(wait_s * 1e9)}, [this] {
      if (healed_) return;
      inject(choices_[rng_.below(static_cast<std::uint32_t>(choices_.size()))],
             nodes_[rng_.below(static_cast<std::uint32_t>(nodes_.size()))]);
      next();
    });
  }
  /// Undone after a while, unless the safety phase has ended meanwhile.
  void later(Nanos wait, std::function<void()> undo) {
    world_.at(world_.now() + wait, [this, undo = std::move(undo)] {
      if (!healed_) undo();
    });
  }
  void inject(Fault fault, NodeId node) {
    ++injected_;
    auto& network = world_.network();
    switch (fault) {
      case Fault::kCut:
        return network.cut(node);
      case Fault::kPartition:
      case Fault::kOneWay: {
        const bool to_head = fault == Fault::kPartition || rng_.below(2) == 0;
        network.block(node, to_head, fault == Fault::kPartition || !to_head);
        world_.note("partition of " + world_.node_name(node));
        return later(between(0.1, 10), [&network, node] { network.block(node, false, false); });
      }
      case Fault::kClog:
        world_.note("clogged: " + world_.node_name(node));
        return network.clog(node, world_.now() + between(0.1, 3));
      case Fault::kPause:
        world_.pause_node(node);
        return later(between(0.05, 8), [this, node] { world_.resume_node(node); });
      case Fault::kCrash:
        return crash(node, between(0.01, 5));
      case Fault::kReplyLost:
        return crash_before_reply(node, between(0.01, 5));
      case Fault::kThrow: {
        const auto actors = world_.actors_on(node);
        return world_.throw_in(
            runtime::actor_id(actors[rng_.below(static_cast<std::uint32_t>(actors.size()))]));
      }
      case Fault::kWallStep:
        return world_.step_wall(rng_.below(2) == 0 ? kHead : node, between(-86'400, 86'400));
      case Fault::kRecorderThrows:
        return world_.throw_in(throwers_[rng_.below(static_cast<std::uint32_t>(throwers_.size()))]);
      case Fault::kHeadCrash:
        return crash(kHead, between(0.01, 3));
      case Fault::kHeadReplyLost:
        return crash_before_reply(kHead, between(0.01, 3));
      case Fault::kHeadPause:
        world_.pause_node(kHead);
        return later(between(0.05, 5), [this] { world_.resume_node(kHead); });
      case Fault::kLeave:
        world_.stop_node(node);
        leaving_.insert(node);
        return later(between(0.01, 1), [this, node] {
          leaving_.erase(node);
          crash(node, between(0.01, 5));
        });
      case Fault::kDiskFull:
        disk_.full = true;
        return later(between(0.1, 5), [this] { disk_.full = false; });
      case Fault::kLauncherPause:
        launcher_->pause();
        return later(between(0.1, 20), [this] { launcher_->resume(); });
      case Fault::kLauncherKill:
        return launcher_->kill();
      case Fault::kStartFails:
        launcher_->start_fails = rng_.below(2) == 0 ? 1 : 0.5;
        return later(between(0.1, 10), [this] { launcher_->start_fails = 0; });
      case Fault::kBitRot:
        if (rotted_ == kMaxRot) return;
        if (const auto where = disk_.rot()) {
          ++rotted_;
          world_.note("a bit turns over in " + *where);
        }
        return;
      case Fault::kExhausted:
        disk_.exhausted = rng_.below(2) == 0 ? Exhausted::kDescriptors : Exhausted::kMemory;
        world_.note("no file can be opened");
        return later(between(0.05, 5), [this] { disk_.exhausted = Exhausted::kNothing; });
      case Fault::kReadFails:
        disk_.read_fails = 0.01 + 0.3 * rng_.uniform_double();
        world_.note("reads fail");
        return later(between(0.05, 2), [this] { disk_.read_fails = 0; });
      default:
        return;
    }
  }

  World& world_;
  const Swarm& swarm_;
  Disk& disk_;
  Launcher* const launcher_;
  Rng rng_;
  std::vector<NodeId> nodes_;
  std::vector<ActorId> throwers_;
  std::vector<Fault> choices_;
  std::set<NodeId> leaving_;  // Told to end, and not gone yet.
  bool healed_ = false;
  std::uint64_t injected_ = 0;
  std::uint32_t rotted_ = 0;
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

/// Of a record in which bits turned over. Before the damage is noticed, a learner that is made anew may learn
/// again from what is damaged, and draw other episodes than before: that alone is excused.
void judge_damage(const Disk& disk, const std::string& directory, HistoryChecker& history, Verdict& verdict,
                  Outcome& outcome) {
  if (const auto complaint = complaint_of(directory)) {
    if (!names_damage(*complaint))
      return verdict.broken("rot is noticed (G19)", "what is said names no damage: " + *complaint);
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
    Injector injector{world, swarm, disk, watching};
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
      return *policy::HierarchicalPlanner::make(one.graph, one.devices, one.constraints,
                                                placer_options(swarm), {}, swarm.seed);
    };

    actors::DispatcherOptions dispatcher;
    dispatcher.episodes = swarm.episodes;
    dispatcher.placements_per_lease = swarm.placements_per_lease;
    dispatcher.window = swarm.window;
    dispatcher.window_bytes = swarm.window_bytes;
    dispatcher.evaluation_limit = swarm.evaluation_limit;
    dispatcher.speculate = swarm.speculate;
    dispatcher.speculate_from = swarm.speculate_from;
    dispatcher.drain = std::chrono::hours{1};  // An end that is not drained is no end.
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
        // Every other one has its devices elsewhere.
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
        verdict.broken("nobody waits for ever (G21)", "not at its end " +
                                                          std::to_string(liveness / std::chrono::seconds{1}) +
                                                          " s after the last fault: " + so_far);
    }
    outcome.rotted = injector.rotted();
    if (ended && !ended->empty()) {
      outcome.noticed = outcome.rotted && names_damage(*ended);
      if (!outcome.noticed) verdict.broken("a clean end (G9)", *ended);
    }
    for (int word = 0; word < 2 && !launcher && !verdict.first();
         ++word) {  // The recorder's own is the last.
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

// Goal: the whole set of actors learns, loses nothing, counts nothing twice and repeats itself.
// Method: all real actors, a real planner, the real simulator and a real database in one simulated world,
// under loss of executors, duplicated and dropped results, and shuffled delivery; the database is the
// witness.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "actors/baseline_tracker.h"
#include "actors/dispatch/dispatcher.h"
#include "actors/executor_actor.h"
#include "actors/learner.h"
#include "actors/recorder.h"
#include "actors/sampler.h"
#include "base/hash.h"
#include "executor/sim/simulator.h"
#include "policy/placers/hierarchical.h"
#include "policy/placers/placeto.h"
#include "tests/runtime/sim/world.h"
#include "tests/support/sample_graphs.h"
#include "tests/support/scratch_folder.h"

namespace emplace::actors {
namespace {

using runtime::sim::Fate;
using runtime::sim::Packet;
using runtime::sim::World;

struct Outcome {
  record::Counters counters;
  std::uint64_t distinct_placements = 0, distinct_episodes = 0;
  std::uint64_t different_placements = 0;  // Placements that differ in some op's device.
  std::string parameters_sha256;
  std::map<std::string, std::uint64_t> episodes_of_graph;
  double utilisation = 0;  // Utilisation of the executors during the run.
  std::optional<std::string> stopped;
  Nanos ended{0};
  std::uint64_t committed_before = 0, committed_while_full = 0;
  std::size_t proposed_while_away = 0;  // All episodes that samplers had proposed when `away` returned.
};

struct Scenario {
  std::uint64_t seed = 1;
  bool shuffle = false, deterministic = false;
  bool local = false;                 // Samplers measure their own episodes.
  bool self_critic = false;           // Episodes end with the likeliest placement.
  std::uint32_t redraws = 0;          // Draws of an episode that repeats placements.
  bool placeto = false;               // Episodes are sequences of steps, on two graphs in turn.
  bool best = false;                  // Placeto's episodes start at the best placement so far.
  double drop = 0, duplicate = 0;     // Shares of the results and leases between dispatcher and executors.
  double lose = 0;                    // Share of all messages that are lost; the same share arrives twice.
  int crash_every = 0;                // An executor crashes after this number of steps of 500 ms; 0: never.
  std::vector<std::string> crash;     // Actors that crash in turn instead of the executors.
  int full_from = 0, full_until = 0;  // Steps of 500 ms during which the disk takes nothing.
  std::string away;                   // An actor that is unreachable for some steps.
  int away_from = 0, away_until = 0;  // Steps of 500 ms during which it is unreachable.
  std::uint32_t executors = 2;
  float learning_rate = 0.01f;
};

constexpr std::size_t kPlacetoGroups = 10;

TaskPtr sample_task(std::size_t graphs) {
  auto task = std::make_shared<Task>();
  task->host = "here";
  for (std::size_t g = 0; g < graphs; ++g) {
    OpGraph graph = testing::random_graph(5 + g, 30);
    DeviceSet devices = testing::sample_devices(2, false, 1 << 30);
    Constraints constraints = *Constraints::make(graph, devices);
    task->graphs.push_back({std::move(graph), std::move(devices), std::move(constraints),
                            g == 0 ? "hash" : "hash" + std::to_string(g)});
  }
  return task;
}

/// Number of steps of forty episodes, one of each graph in turn.
std::uint64_t steps_of_forty_episodes() {
  const TaskPtr task = sample_task(2);
  std::uint64_t steps = 0;
  for (const TaskGraph& one : task->graphs)
    steps += 20 * random_groups(one.graph, kPlacetoGroups, 1).num_groups;
  return steps;
}

std::unique_ptr<policy::Placer> placeto(const Task& task, std::uint64_t seed, bool best) {
  std::vector<policy::PlacetoGraph> graphs;
  for (const TaskGraph& one : task.graphs) {
    graphs.push_back(
        {{&one.graph, &one.devices, &one.constraints}, random_groups(one.graph, kPlacetoGroups, 1), {}});
  }
  policy::PlacetoOptions options;
  options.network.embedding = 4;
  options.network.hidden = 8;
  options.network.rounds = 2;
  if (best) options.start = policy::InitialPlacement::kBest;
  return *policy::PlacetoPlacer::make(std::move(graphs), options, seed);
}

/// The executors as the dispatcher saw them three quarters into the run.
std::vector<messages::ExecutorUse> in_full_swing(const std::vector<messages::DispatchProgress>& reports) {
  std::vector<messages::ExecutorUse> middle;
  for (std::size_t i = 0; i < reports.size() * 3 / 4; ++i) {
    if (!reports[i].executors.empty()) middle = reports[i].executors;
  }
  return middle;
}

/// While it exists, no file of this process can grow, as on a full disk.
class FullDisk {
 public:
  FullDisk() : before_{limit()}, handler_{std::signal(SIGXFSZ, SIG_IGN)} { set({0, before_.rlim_max}); }
  ~FullDisk() {
    set(before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  static rlimit limit() {
    rlimit now{};
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &now), 0);
    return now;
  }
  static void set(const rlimit& to) { EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &to), 0); }

  rlimit before_;
  void (*handler_)(int);
};

Outcome play(const Scenario& scenario) {
  const testing::ScratchFolder folder{"pipeline"};
  const std::filesystem::path directory = folder.path() / "run";
  EXPECT_TRUE(record::RunWriter::create(directory, {}).ok());
  const TaskPtr task = sample_task(scenario.placeto ? 2 : 1);
  Outcome outcome;
  World world{{.seed = scenario.seed, .shuffle = scenario.shuffle}};
  world.on_send([&](const Packet& packet, Rng& rng) {
    const bool between = packet.envelope.type == messages::PlacementMeasured::kType ||
                         packet.envelope.type == messages::LeaseGranted::kType;
    Fate fate;
    fate.drop = rng.uniform() < scenario.lose;
    fate.duplicate = rng.uniform() < scenario.lose;
    if (!between) return fate;
    fate.drop |= rng.uniform() < scenario.drop;
    fate.duplicate |= rng.uniform() < scenario.duplicate;
    fate.delay = std::chrono::milliseconds{rng.below(50)};
    return fate;
  });
  const PlacerFactory placer = [task, seed = scenario.seed, steps = scenario.placeto,
                                best = scenario.best]() -> std::unique_ptr<policy::Placer> {
    if (steps) return placeto(*task, seed, best);
    policy::HierarchicalOptions options;
    options.groups = 4;
    options.hidden = 8;
    options.grouper_hidden = 8;
    options.placements = 2;
    return *policy::HierarchicalPlanner::make(
        {{{&task->graphs[0].graph, &task->graphs[0].devices, &task->graphs[0].constraints}, {}}}, options,
        seed);
  };
  DispatcherOptions dispatcher;
  dispatcher.episodes = 40;
  dispatcher.placements_per_lease = 1;
  dispatcher.samplers = {sampler_name(0), sampler_name(1)};
  dispatcher.drain = std::chrono::seconds{60};
  world.spawn<Dispatcher>(kDispatcher, task, dispatcher);
  TrackerOptions baseline;
  baseline.ordered = scenario.deterministic;
  if (scenario.placeto) {
    baseline.baseline.kind = policy::BaselineKind::kStepMean;
    baseline.baseline.returns = policy::Returns::kIntermediate;
    baseline.per = BaselinePer::kRun;
  }
  if (scenario.self_critic) baseline.baseline.kind = policy::BaselineKind::kSelfCritic;
  world.spawn<BaselineTracker>(kTracker, baseline);
  RecorderOptions recorder;
  recorder.checkpoint_chunk = 1'000;  // Several chunks per checkpoint.
  world.spawn<Recorder>(
      kRecorder, recorder, RunWriterFactory{[directory] { return record::RunWriter::open(directory); }},
      BestHandler{[](std::span<const DeviceId>, const messages::EpisodeMeasured&, std::uint32_t) {}});
  LearnerOptions learner;
  learner.batch_episodes = 2;
  learner.checkpoint_chunk = recorder.checkpoint_chunk;
  learner.ordered = scenario.deterministic;
  learner.training.learning_rate.start = scenario.learning_rate;
  learner.samplers = dispatcher.samplers;
  world.spawn<Learner>(kLearner, learner, placer);
  ExecutorOptions executor;
  executor.delay = std::chrono::milliseconds{scenario.placeto ? 200 : 20};
  executor.delay_spread = 4;
  std::vector<runtime::ActorId> executors;
  const ExecutorFactory simulate = [](const TaskGraph& of) {
    return std::make_unique<Simulator>(of.graph, of.devices);
  };
  for (std::uint32_t e = 0; e < scenario.executors && !scenario.local; ++e) {
    executors.push_back(world.spawn<ExecutorActor>(executor_name(e), task, executor, simulate));
  }
  for (std::uint32_t c = 0; c < 2; ++c) {
    SamplerOptions sampler;
    sampler.controller = c;
    sampler.controllers = 2;
    sampler.episodes = 40;
    sampler.batch = scenario.deterministic ? learner.batch_episodes : 0;
    sampler.self_critic = scenario.self_critic;
    sampler.redraws = scenario.redraws;
    if (scenario.placeto) sampler.max_outstanding = 8;
    world.spawn<Sampler>(sampler_name(c), task, sampler, placer,
                         scenario.local ? simulate : ExecutorFactory{});
  }
  std::optional<FullDisk> full;
  for (int step = 1; step <= 1200 && !world.stopped(); ++step) {
    world.advance(std::chrono::milliseconds{500});
    if (step == scenario.away_from) world.crash(runtime::actor_id(scenario.away));
    if (step == scenario.away_until) {
      std::set<std::uint64_t> proposed;
      for (const Packet& packet : world.log()) {
        if (packet.envelope.type == messages::PlacementProposed::kType)
          proposed.insert(messages::decode_body<messages::PlacementProposed>(packet.body)->episode);
      }
      outcome.proposed_while_away = proposed.size();
      world.restart(runtime::actor_id(scenario.away));
    }
    if (step == scenario.full_from) {
      full.emplace();
      outcome.committed_before = world.last_sent<messages::EpisodesRecorded>().committed;
    }
    if (step == scenario.full_until) {
      outcome.committed_while_full = world.last_sent<messages::EpisodesRecorded>().committed;
      full.reset();
    }
    if (scenario.crash_every == 0 || step % scenario.crash_every != 0) continue;
    const auto turn = static_cast<std::size_t>(step / scenario.crash_every);
    const runtime::ActorId victim = scenario.crash.empty()
                                        ? executors[turn % executors.size()]
                                        : runtime::actor_id(scenario.crash[turn % scenario.crash.size()]);
    world.crash(victim);
    world.advance(std::chrono::milliseconds{700});
    world.restart(victim);
  }
  for (const messages::ExecutorUse& use : in_full_swing(world.sent<messages::DispatchProgress>()))
    outcome.utilisation += use.utilisation / scenario.executors;
  outcome.stopped = world.stopped();
  outcome.ended = world.now();
  world.stop();
  world.run_until_idle();
  world.stop();
  auto db = *record::RunReader::open(directory, record::Reading::kInProgress);
  EXPECT_TRUE(db->verify().ok());
  outcome.counters = *db->results().counters();
  std::set<std::uint64_t> placements, episodes;
  std::set<std::uint64_t> contents;  // Hashes.
  for (const auto& row : *db->log().measurements(1, 100'000)) placements.insert(row.placement_id);
  for (const auto& row : *db->log().episodes(1, 100'000)) {
    episodes.insert(row.episode);
    ++outcome.episodes_of_graph[row.graph_sha256];
    const std::size_t size = row.placements.size() / row.count;
    for (std::span<const std::byte> left = row.placements; !left.empty(); left = left.subspan(size))
      contents.insert(hash64(left.first(size)));
  }
  outcome.distinct_placements = placements.size();
  outcome.different_placements = contents.size();
  outcome.distinct_episodes = episodes.size();
  const auto updates = *db->log().updates();
  if (!updates.empty()) outcome.parameters_sha256 = updates.back().parameters_sha256;
  return outcome;
}

void expect_whole(const Outcome& outcome) {
  ASSERT_TRUE(outcome.stopped.has_value()) << "the run did not end";
  EXPECT_TRUE(outcome.stopped->empty()) << *outcome.stopped;
  EXPECT_EQ(outcome.counters.episodes, 40u);
  EXPECT_EQ(outcome.distinct_episodes, 40u);
  EXPECT_EQ(outcome.counters.measurements, 80u);
  EXPECT_EQ(outcome.distinct_placements, 80u);
  EXPECT_EQ(outcome.counters.updates, 20u);
}

TEST(Pipeline, MeasuresLearnsAndEndsByTheCount) { expect_whole(play({})); }

TEST(Pipeline, DivergedPolicyEndsTheRunBeforeItIsRecorded) {
  Scenario scenario;
  scenario.deterministic = true;
  scenario.learning_rate = 1e30f;
  const Outcome outcome = play(scenario);  // Also verifies the record.
  ASSERT_TRUE(outcome.stopped.has_value());
  EXPECT_EQ(*outcome.stopped, "update " + std::to_string(outcome.counters.updates + 1) +
                                  ": the loss is not finite; lower policy.learning_rate");
  EXPECT_LT(outcome.counters.updates, 5u);
  scenario.learning_rate = std::numeric_limits<float>::infinity();
  EXPECT_EQ(*play(scenario).stopped, "update 1: a parameter is not finite; lower policy.learning_rate");
}

TEST(Pipeline, LosesNothingAndCountsNothingTwiceUnderFaults) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Scenario scenario;
    scenario.seed = seed;
    scenario.shuffle = seed % 2 == 0;
    scenario.drop = seed % 3 == 0 ? 0.2 : 0.05;
    scenario.duplicate = seed % 4 == 0 ? 0.3 : 0.0;
    scenario.crash_every = seed % 5 == 0 ? 3 : 0;
    expect_whole(play(scenario));
  }
}

const std::vector<std::string> kEverybody{kDispatcher,      kRecorder,       kTracker,
                                          kLearner,         sampler_name(0), sampler_name(1),
                                          executor_name(0), executor_name(1)};

TEST(Pipeline, CrashOfAnyActorKeepsTheParameters) {
  Scenario scenario;
  scenario.deterministic = true;
  const std::string plain = play(scenario).parameters_sha256;
  scenario.crash_every = 1;
  for (const std::string& victim : kEverybody) {
    SCOPED_TRACE(victim);
    scenario.crash = {victim};
    const Outcome crashed = play(scenario);
    expect_whole(crashed);
    EXPECT_EQ(crashed.parameters_sha256, plain);
  }
}

TEST(Pipeline, FullDiskPausesTheRunAndLosesNothing) {
  Scenario scenario;
  scenario.deterministic = true;
  const std::string plain = play(scenario).parameters_sha256;
  scenario.full_from = 1;
  scenario.full_until = 40;
  const Outcome full = play(scenario);
  expect_whole(full);
  EXPECT_LT(full.committed_before, 40u) << "the disk was full before the end";
  EXPECT_EQ(full.committed_while_full, full.committed_before)
      << "nothing is acknowledged that is not on disk";
  EXPECT_EQ(full.parameters_sha256, plain);
}

TEST(Pipeline, SamplersPauseWhileAnActorIsUnreachable) {
  for (const char* away : {kLearner, kRecorder, kTracker, kDispatcher}) {
    SCOPED_TRACE(away);
    Scenario scenario;
    scenario.away = away;
    scenario.away_from = 1;
    scenario.away_until = 240;
    const Outcome outcome = play(scenario);
    expect_whole(outcome);
    // Some were learned from in the first half second; then each of two samplers has four in flight.
    EXPECT_LE(outcome.proposed_while_away, 32u);
  }
}

TEST(Pipeline, LostMessagesOfEveryActorAreRetried) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Scenario scenario;
    scenario.seed = seed;
    scenario.deterministic = true;
    const std::string plain = play(scenario).parameters_sha256;
    scenario.shuffle = seed % 2 == 0;
    scenario.lose = 0.1;
    scenario.crash_every = seed % 3 == 0 ? 5 : 0;
    scenario.crash = kEverybody;
    const Outcome faulty = play(scenario);
    expect_whole(faulty);
    EXPECT_EQ(faulty.parameters_sha256, plain);
  }
}

TEST(Pipeline, DeterministicRunsDoNotDependOnTimingOrExecutors) {
  Scenario scenario;
  scenario.deterministic = true;
  const Outcome plain = play(scenario);
  expect_whole(plain);
  scenario.shuffle = true;
  scenario.executors = 3;
  const Outcome shuffled = play(scenario);
  expect_whole(shuffled);
  EXPECT_EQ(plain.parameters_sha256, shuffled.parameters_sha256);
  EXPECT_FALSE(plain.parameters_sha256.empty());
  scenario.seed = 2;
  EXPECT_NE(play(scenario).parameters_sha256, plain.parameters_sha256);
}

TEST(Pipeline, LocalMeasurementLearnsTheSame) {
  Scenario scenario;
  scenario.deterministic = true;
  const Outcome elsewhere = play(scenario);
  scenario.local = true;
  const Outcome local = play(scenario);
  expect_whole(local);
  EXPECT_EQ(local.parameters_sha256, elsewhere.parameters_sha256);
}

TEST(Pipeline, PlacetoMeasuresEveryStepOnceOnEveryGraph) {
  Scenario scenario;
  scenario.placeto = true;
  const Outcome outcome = play(scenario);
  ASSERT_TRUE(outcome.stopped.has_value());
  EXPECT_TRUE(outcome.stopped->empty()) << *outcome.stopped;
  EXPECT_EQ(outcome.counters.episodes, 40u);
  EXPECT_EQ(outcome.counters.measurements, steps_of_forty_episodes()) << "one evaluation per step";
  EXPECT_EQ(outcome.distinct_placements, steps_of_forty_episodes());
  EXPECT_EQ(outcome.counters.updates, 20u);
  EXPECT_EQ(outcome.episodes_of_graph, (std::map<std::string, std::uint64_t>{{"hash", 20}, {"hash1", 20}}));
  EXPECT_GE(outcome.utilisation, 0.9) << "with 8 episodes of each sampler in flight";
}

TEST(Pipeline, PlacetoLosesNothingUnderFaultsAndIsReproducible) {
  Scenario scenario;
  scenario.placeto = scenario.deterministic = true;
  const std::string plain = play(scenario).parameters_sha256;
  ASSERT_FALSE(plain.empty());
  scenario.shuffle = true;
  scenario.drop = 0.1;
  scenario.duplicate = 0.1;
  scenario.executors = 3;
  const Outcome faulty = play(scenario);
  EXPECT_EQ(faulty.counters.measurements, steps_of_forty_episodes());
  EXPECT_EQ(faulty.distinct_placements, steps_of_forty_episodes());
  EXPECT_EQ(faulty.parameters_sha256, plain);
  scenario.local = true;
  EXPECT_EQ(play(scenario).parameters_sha256, plain) << "measured by the samplers themselves";
}

TEST(Pipeline, EpisodesFromTheBestDoNotDependOnTiming) {
  Scenario scenario;
  scenario.placeto = scenario.deterministic = true;
  const std::string single = play(scenario).parameters_sha256;
  scenario.best = true;
  const Outcome plain = play(scenario);
  EXPECT_EQ(plain.counters.measurements, steps_of_forty_episodes());
  EXPECT_NE(plain.parameters_sha256, single);
  for (const std::uint64_t executors : {1, 3}) {
    scenario.shuffle = true;
    scenario.drop = scenario.duplicate = 0.1;
    scenario.executors = static_cast<std::uint32_t>(executors);
    EXPECT_EQ(play(scenario).parameters_sha256, plain.parameters_sha256);
  }
  scenario.crash_every = 8;
  for (const std::string& victim : kEverybody) {
    SCOPED_TRACE(victim);
    scenario.crash = {victim};
    EXPECT_EQ(play(scenario).parameters_sha256, plain.parameters_sha256);
  }
  scenario.crash_every = 0;
  scenario.local = true;
  EXPECT_EQ(play(scenario).parameters_sha256, plain.parameters_sha256);
}

TEST(Pipeline, EpisodesFromTheBestSurviveAnyRestart) {
  Scenario scenario;
  scenario.placeto = scenario.best = true;
  scenario.lose = 0.05;
  scenario.crash_every = 4;
  for (const std::string& victim : {sampler_name(0), std::string{kRecorder}, std::string{kDispatcher}}) {
    SCOPED_TRACE(victim);
    scenario.crash = {victim};
    const Outcome outcome = play(scenario);
    EXPECT_EQ(outcome.stopped, "") << "the run did not end";
    EXPECT_EQ(outcome.counters.measurements, steps_of_forty_episodes());
    EXPECT_EQ(outcome.counters.updates, 20u);
  }
}

TEST(Pipeline, RedrawsSpendEvaluationsOnNewPlacements) {
  Scenario scenario;
  scenario.deterministic = true;
  const Outcome plain = play(scenario);
  scenario.redraws = 8;
  const Outcome redrawn = play(scenario);
  expect_whole(redrawn);
  EXPECT_GT(redrawn.different_placements, plain.different_placements);
  EXPECT_EQ(play(scenario).parameters_sha256, redrawn.parameters_sha256);
}

TEST(Pipeline, SelfCriticMeasuresTheLikeliestPlacementToo) {
  Scenario scenario;
  scenario.deterministic = true;
  const Outcome plain = play(scenario);
  scenario.self_critic = true;
  const Outcome critic = play(scenario);
  EXPECT_EQ(critic.counters.episodes, 40u);
  EXPECT_EQ(critic.counters.measurements, 120u) << "two drawn and the likeliest, each episode";
  EXPECT_EQ(critic.distinct_placements, 120u);
  EXPECT_EQ(critic.counters.updates, 20u);
  EXPECT_NE(critic.parameters_sha256, plain.parameters_sha256);
}

}  // namespace
}  // namespace emplace::actors

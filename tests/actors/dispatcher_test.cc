// Goal: the dispatcher keeps its promises.  Method: messages delivered by hand in a simulated world: no
// thread, no socket, no sleep; numbers exact in binary.
#include <gtest/gtest.h>

#include <map>

#include "actors/dispatcher.h"
#include "actors/executor_actor.h"
#include "executor/simulator.h"
#include "runtime/sim/world.h"
#include "tests/support/sample_graphs.h"

namespace emplace::actors {
namespace {

using messages::MeasurementReported;
using messages::PlacementMeasured;
using messages::PlacementProposed;
using runtime::sim::World;

class DispatcherTest : public ::testing::Test {
 protected:
  DispatcherTest() {
    OpGraph graph = testing::sample_graph({{"a"}, {"b", {{0, 0}}}, {"c", {{1, 0}}}, {"d", {{2, 0}}}});
    DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
    Constraints constraints = *Constraints::make(graph, devices);
    task_ = make_task({std::move(graph), std::move(devices), std::move(constraints), "hash"}, "here");
    options_.placements_per_lease = 2;
    options_.window = 4;
    options_.samplers = {};
  }
  void start() { dispatcher_ = world_.spawn<Dispatcher>(kDispatcher, task_, options_); }
  void join(const std::string& name, std::uint64_t epoch = 1, std::uint32_t credit = 4) {
    messages::ExecutorJoined joined{name, "here", "sim", "hash", 2, 0, epoch};
    world_.deliver(dispatcher_, joined, {}, runtime::actor_id(name));
    world_.deliver(dispatcher_, messages::CreditGranted{name, epoch, credit, 1 << 20}, {},
                   runtime::actor_id(name));
  }
  void propose(std::uint64_t episode, std::uint32_t count) {
    PlacementProposed p;
    p.graph_sha256 = "hash";
    p.episode = episode;
    p.count = count;
    p.placement_id = 100 * episode;
    p.num_ops = 4;
    p.num_devices = 2;
    messages::BulkBuilder bulk;
    const messages::Bytes placements(4u * count, std::byte{0});
    p.placements = bulk.add(placements);
    p.actions = bulk.add(messages::Bytes{std::byte{7}});
    world_.deliver(dispatcher_, p, bulk.finish(), runtime::actor_id("sampler/0"));
  }
  std::vector<PlacementProposed> leases() const { return world_.sent<PlacementProposed>(); }
  void answer(const PlacementProposed& lease, const std::string& executor, double step_time_s = 1) {
    PlacementMeasured m;
    m.placement_id = lease.placement_id;
    m.count = lease.count;
    m.episode = lease.episode;
    m.executor = executor;
    m.executor_kind = "sim";
    m.host = "here";
    m.lease_epoch = lease.lease_epoch;
    m.num_devices = 2;
    m.valid.assign(lease.count, 1);
    m.step_time_s.assign(lease.count, step_time_s);
    m.bytes_over.assign(lease.count, 0);
    m.bytes_moved.assign(lease.count, 0);
    m.peak_bytes.assign(2 * lease.count, 0);
    m.busy_s.assign(2 * lease.count, 0);
    world_.deliver(dispatcher_, m, {}, runtime::actor_id(executor));
  }
  Dispatcher& dispatcher() { return world_.actor<Dispatcher>(dispatcher_); }
  static ExecutorFactory simulate() {
    return [](const TaskGraph& of) { return std::make_unique<Simulator>(of.graph, of.devices); };
  }

  World world_;
  TaskPtr task_;
  DispatcherOptions options_;
  runtime::ActorId dispatcher_{};
};

TEST_F(DispatcherTest, CutsAnEpisodeIntoLeasesAndReportsItWhole) {
  start();
  join("executor/0");
  propose(1, 3);
  ASSERT_EQ(leases().size(), 2u);
  EXPECT_EQ(leases()[0].placement_id, 100u);
  EXPECT_EQ(leases()[0].count, 2u);
  EXPECT_EQ(leases()[1].placement_id, 102u);
  EXPECT_EQ(leases()[1].count, 1u);
  answer(leases()[1], "executor/0", 2);
  EXPECT_TRUE(world_.sent<MeasurementReported>().empty());
  answer(leases()[0], "executor/0", 1);
  const auto reported = world_.last_sent<MeasurementReported>();
  EXPECT_EQ(reported.measured.step_time_s, (std::vector<double>{1, 1, 2}));
  EXPECT_EQ(reported.actions.size, 1u);
  EXPECT_EQ(dispatcher().in_flight(), 0u);
}

TEST_F(DispatcherTest, SendsNoMoreThanTheCreditAndGoesOnWhenItReturns) {
  start();
  join("executor/0", 1, 2);
  propose(1, 4);
  EXPECT_EQ(leases().size(), 1u);
  answer(leases()[0], "executor/0");
  EXPECT_EQ(leases().size(), 2u) << "the credit came back with the result";
}

TEST_F(DispatcherTest, AnExpiredLeaseGoesToAnotherAndTheLateResultDoesNotCount) {
  start();
  join("executor/0", 1, 2);
  propose(1, 2);
  const PlacementProposed first = leases().at(0);
  join("executor/1", 1, 2);
  for (int beat = 0; beat < 6; ++beat) {
    world_.deliver(dispatcher_, messages::Heartbeat{"executor/1", 1, {}, 0}, {},
                   runtime::actor_id("executor/1"));
    world_.advance(std::chrono::milliseconds{500});
  }
  ASSERT_EQ(leases().size(), 2u);
  EXPECT_NE(leases()[1].lease_epoch, first.lease_epoch);
  EXPECT_EQ(dispatcher().counters().lost, 1u);
  answer(first, "executor/0", 9);
  EXPECT_EQ(dispatcher().counters().duplicated, 1u);
  EXPECT_TRUE(world_.sent<MeasurementReported>().empty());
  answer(leases()[1], "executor/1", 5);
  EXPECT_EQ(world_.last_sent<MeasurementReported>().measured.step_time_s, (std::vector<double>{5, 5}));
  answer(leases()[1], "executor/1", 5);
  EXPECT_EQ(world_.sent<MeasurementReported>().size(), 1u) << "a repeated result counts once";
}

TEST_F(DispatcherTest, CreditOfAnExpiredLeaseReturnsWithItsLateResult) {
  start();
  join("executor/0", 1, 2);
  propose(1, 2);
  world_.advance(std::chrono::seconds{3});
  ASSERT_EQ(dispatcher().counters().lost, 1u);
  EXPECT_EQ(leases().size(), 1u) << "what it may still be working on takes its credit";
  answer(leases()[0], "executor/0");
  EXPECT_EQ(leases().size(), 2u) << "it has answered, late, and can work again";
}

TEST_F(DispatcherTest, CreditOfALostLeaseReturnsWhenTheExecutorDoesNotHoldIt) {
  start();
  join("executor/0", 1, 2);
  propose(1, 2);
  world_.advance(std::chrono::seconds{3});
  ASSERT_EQ(leases().size(), 1u);
  world_.deliver(dispatcher_, messages::Heartbeat{"executor/0", 1, {}, 0}, {},
                 runtime::actor_id("executor/0"));
  EXPECT_EQ(leases().size(), 2u);
}

TEST_F(DispatcherTest, ALeaseThatIsOnItsWayIsKeptForAWhile) {
  start();
  join("executor/0", 1, 2);
  propose(1, 2);
  const auto beats = [&](int count, std::uint64_t seen) {
    for (int beat = 0; beat < count; ++beat) {
      world_.deliver(dispatcher_, messages::Heartbeat{"executor/0", 1, {}, 0, seen}, {},
                     runtime::actor_id("executor/0"));
      world_.advance(std::chrono::milliseconds{500});
    }
  };
  beats(8, leases()[0].lease_epoch - 1);
  EXPECT_EQ(dispatcher().counters().lost, 0u) << "a slow line is no dead one";
  beats(8, leases()[0].lease_epoch - 1);
  EXPECT_GE(dispatcher().counters().lost, 1u) << "it will not come any more";
}

TEST_F(DispatcherTest, NobodySpeaksForAnother) {
  start();
  join("executor/0");
  join("executor/1", 1, 0);
  propose(1, 1);
  PlacementMeasured forged;
  forged.executor = "executor/0";
  forged.lease_epoch = leases().at(0).lease_epoch;
  forged.placement_id = leases().at(0).placement_id;
  forged.error = "none of mine";
  forged.wall_s = 1e300;
  const auto forger = runtime::actor_id("executor/1");
  world_.deliver(dispatcher_, forged, {}, forger);
  world_.deliver(dispatcher_, messages::ExecutorLeft{"executor/0", 1, ""}, {}, forger);
  world_.deliver(dispatcher_, messages::ExecutorJoined{"executor/0", "here", "sim", "hash", 2, 0, 9}, {},
                 forger);
  EXPECT_EQ(dispatcher().counters().lost, 0u);
  answer(leases()[0], "executor/0");
  EXPECT_EQ(world_.sent<MeasurementReported>().size(), 1u);
}

TEST_F(DispatcherTest, HeartbeatsThatNameALeaseKeepIt) {
  start();
  join("executor/0");
  propose(1, 2);
  for (int beat = 0; beat < 20; ++beat) {
    world_.deliver(dispatcher_, messages::Heartbeat{"executor/0", 1, {leases()[0].lease_epoch}, 0}, {},
                   runtime::actor_id("executor/0"));
    world_.advance(std::chrono::milliseconds{500});
  }
  EXPECT_EQ(dispatcher().counters().lost, 0u);
  EXPECT_EQ(leases().size(), 1u);
}

TEST_F(DispatcherTest, ANewLifeOfAnExecutorLosesWhatTheOldOneHeld) {
  start();
  join("executor/0", 1);
  propose(1, 2);
  join("executor/0", 2);
  ASSERT_EQ(leases().size(), 2u);
  answer(leases()[0], "executor/0", 9);
  EXPECT_EQ(dispatcher().counters().duplicated, 1u);
  answer(leases()[1], "executor/0", 1);
  EXPECT_EQ(world_.last_sent<MeasurementReported>().measured.step_time_s[0], 1);
}

TEST_F(DispatcherTest, WhatALeavingExecutorGivesBackGoesToAnotherAtOnceAndIsNotLost) {
  options_.placements_per_lease = 1;
  options_.horizon = std::chrono::hours{1};
  start();
  join("executor/0");
  propose(1, 3);
  answer(leases()[0], "executor/0");  // It is measured now, and may hold more than two.
  propose(2, 1);
  ASSERT_EQ(leases().size(), 4u);
  join("executor/1");
  // It holds the second one, has answered the third, and the fourth is on its way.
  const messages::ExecutorLeft left{
      "executor/0", 1, "asked to", {leases()[1].lease_epoch}, leases()[2].lease_epoch};
  world_.deliver(dispatcher_, left, {}, runtime::actor_id("executor/0"));
  ASSERT_EQ(leases().size(), 6u);
  EXPECT_EQ(leases()[4].placement_id, leases()[1].placement_id);
  EXPECT_EQ(leases()[5].placement_id, leases()[3].placement_id);
  answer(leases()[2], "executor/0");
  EXPECT_EQ(dispatcher().counters().reported, 2u) << "on its way when it left";
  answer(leases()[1], "executor/0");
  EXPECT_EQ(dispatcher().counters().duplicated, 1u) << "given back";
  answer(leases()[4], "executor/1");
  answer(leases()[5], "executor/1");
  EXPECT_EQ(dispatcher().in_flight(), 0u);
  world_.advance(std::chrono::milliseconds{500});
  const auto progress = world_.last_sent<messages::RunProgress>();
  EXPECT_EQ(progress.lost, 0u);
  EXPECT_EQ(progress.refused, 2u);
  EXPECT_EQ(progress.issued, progress.counted + progress.open + progress.expired + progress.refused);
  EXPECT_EQ(progress.executors.size(), 1u);
}

TEST_F(DispatcherTest, ExecutorsOfAKindThatDoesNotCountAreLeftAlone) {
  options_.kinds = {"cpu", "sim"};
  start();
  messages::ExecutorJoined fake{"executor/9", "here", "fake", "hash", 2, 0, 1, 4, 1 << 20};
  const auto from = runtime::actor_id("executor/9");
  world_.deliver(dispatcher_, fake, {}, from);
  propose(1, 2);
  world_.deliver(dispatcher_, messages::Heartbeat{"executor/9", 1, {}, 0}, {}, from);
  EXPECT_TRUE(leases().empty());
  EXPECT_TRUE(world_.sent<messages::ExecutorUnknown>().empty()) << "it is known, and not asked to join again";
  fake.kind = "cpu";
  fake.epoch = 2;
  world_.deliver(dispatcher_, fake, {}, from);
  EXPECT_EQ(leases().size(), 1u);
  fake.kind = "fake";
  fake.epoch = 3;
  world_.deliver(dispatcher_, fake, {}, from);
  EXPECT_EQ(dispatcher().counters().lost, 1u) << "a new life that does not count";
  EXPECT_EQ(leases().size(), 1u);
}

TEST_F(DispatcherTest, AnExecutorWhoseNodeStopsHandsItsWorkOver) {
  options_.placements_per_lease = 1;
  start();
  const auto node = world_.add_node("going");
  ExecutorOptions executor;
  executor.delay = std::chrono::seconds{1};
  executor.node = "going";
  executor.cores = 3;
  executor.memory_bytes = 5;
  executor.version = "1.2";
  world_.spawn_on(node, "executor/0",
                  [&] { return std::make_unique<ExecutorActor>(task_, executor, simulate()); });
  world_.advance(std::chrono::milliseconds{100});
  const auto joined = world_.last_sent<messages::ExecutorJoined>();
  EXPECT_EQ(joined.node + joined.version + std::to_string(joined.cores + joined.memory_bytes), "going1.28");
  propose(1, 2);
  world_.advance(std::chrono::milliseconds{100});
  world_.spawn<ExecutorActor>("executor/1", task_, executor, simulate());
  world_.stop_node(node);
  world_.advance(std::chrono::milliseconds{100});
  EXPECT_EQ(leases().size(), 4u) << "not after three heartbeats";
  world_.advance(std::chrono::seconds{5});
  EXPECT_EQ(dispatcher().counters().lost, 0u);
  EXPECT_EQ(dispatcher().counters().duplicated, 0u) << "it went on with nothing";
  EXPECT_EQ(dispatcher().in_flight(), 0u);
}

TEST_F(DispatcherTest, RefusesProposalsOfAnotherGraphAndExecutorsWithAnother) {
  start();
  messages::ExecutorJoined stranger{"executor/9", "here", "sim", "other", 2, 0, 1};
  world_.deliver(dispatcher_, stranger, {}, runtime::actor_id("executor/9"));
  world_.deliver(dispatcher_, messages::CreditGranted{"executor/9", 1, 4, 1 << 20});
  propose(1, 2);
  EXPECT_TRUE(leases().empty());
  PlacementProposed foreign;
  foreign.graph_sha256 = "other";
  foreign.count = 1;
  world_.deliver(dispatcher_, foreign);
  EXPECT_EQ(dispatcher().counters().refused, 1u);
}

TEST_F(DispatcherTest, ReportsUntilTheRecorderHasIt) {
  start();
  join("executor/0");
  propose(0, 1);
  answer(leases()[0], "executor/0");
  world_.advance(std::chrono::milliseconds{2500});
  EXPECT_GE(world_.sent<MeasurementReported>().size(), 3u);
  world_.deliver(dispatcher_, messages::EpisodesRecorded{{0}, 1});
  world_.clear_log();
  world_.advance(std::chrono::seconds{3});
  EXPECT_TRUE(world_.sent<MeasurementReported>().empty());
  propose(0, 1);
  EXPECT_EQ(dispatcher().counters().proposed, 1u) << "a repeat of what is on disk";
}

TEST_F(DispatcherTest, AsksForWhatItDoesNotHaveAndForExecutorsThatItDoesNotKnow) {
  start();
  join("executor/0");
  propose(0, 1);
  world_.deliver(dispatcher_, messages::EpisodesAsked{0, 1, false, {0, 1}}, {},
                 runtime::actor_id("sampler/0"));
  EXPECT_EQ(world_.last_sent<messages::EpisodesWanted>().episodes, (std::vector<std::uint64_t>{1}));
  world_.deliver(dispatcher_, messages::Heartbeat{"executor/7", 3, {}, 0}, {},
                 runtime::actor_id("executor/7"));
  EXPECT_EQ(world_.last_sent<messages::ExecutorUnknown>().epoch, 3u);
  EXPECT_EQ(world_.sent<messages::ExecutorUnknown>().size(), 1u);
}

TEST_F(DispatcherTest, EndsAfterTheEpisodesAskedForOnceSamplersHaveDrained) {
  options_.episodes = 1;
  options_.samplers = {"sampler/0"};
  start();
  join("executor/0");
  propose(0, 1);
  answer(leases()[0], "executor/0");
  EXPECT_TRUE(world_.sent<messages::StopRun>().empty()) << "what is not on disk does not count";
  world_.deliver(dispatcher_, messages::EpisodesRecorded{{0}, 1});
  EXPECT_EQ(world_.sent<messages::StopRun>().size(), 1u);
  EXPECT_FALSE(world_.stopped().has_value());
  messages::RunProgress drained;
  drained.from = "sampler/0";
  world_.deliver(dispatcher_, drained);
  EXPECT_FALSE(world_.stopped().has_value()) << "the last update may not be on disk";
  messages::EpisodesKnown known;
  known.committed = known.unlearned = 1;
  world_.deliver(dispatcher_, known);
  EXPECT_FALSE(world_.stopped().has_value());
  known.unlearned = 0;
  world_.deliver(dispatcher_, known);
  EXPECT_TRUE(world_.stopped().has_value());
  EXPECT_TRUE(world_.stopped()->empty()) << "a clean end";
}

TEST_F(DispatcherTest, AnExecutorThatCannotMeasureEndsTheRunWithItsReason) {
  options_.attempts = 2;
  start();
  join("executor/0");
  propose(1, 1);
  for (int i = 0; i < 2; ++i) {
    PlacementMeasured m;
    m.executor = "executor/0";
    m.lease_epoch = leases().back().lease_epoch;
    m.error = "no kernel for conv9d";
    world_.deliver(dispatcher_, m, {}, runtime::actor_id("executor/0"));
  }
  ASSERT_TRUE(world_.stopped().has_value());
  EXPECT_NE(world_.stopped()->find("conv9d"), std::string::npos);
}

/// Fifty leases took 0.1 s each; then one takes longer, while a second executor has nothing to do.
class StragglerTest : public DispatcherTest {
 protected:
  void straggle() {
    start();
    join("executor/0");
    for (std::uint64_t e = 0; e < 50; ++e) {
      propose(e, 1);
      world_.advance(std::chrono::milliseconds{100});
      answer(leases().back(), "executor/0");
    }
    propose(50, 1);
    first_ = leases().back();
    join("executor/1");
  }
  void wait(Nanos time) {
    for (const Nanos end = world_.now() + time; world_.now() < end;) {
      std::vector<std::uint64_t> held;
      for (const PlacementProposed& lease : leases()) held.push_back(lease.lease_epoch);
      for (const char* name : {"executor/0", "executor/1"})
        world_.deliver(dispatcher_, messages::Heartbeat{name, 1, held, 0}, {}, runtime::actor_id(name));
      world_.advance(std::min<Nanos>(std::chrono::milliseconds{500}, end - world_.now()));
    }
  }
  /// What the recorder is told of episode 50.
  std::vector<double> told() const {
    for (const MeasurementReported& reported : world_.sent<MeasurementReported>())
      if (reported.measured.episode == 50) return reported.measured.step_time_s;
    return {};
  }
  PlacementProposed first_;
};

TEST_F(StragglerTest, IsOvertakenByAnIdleExecutorAndTheFirstResultCounts) {
  straggle();
  wait(std::chrono::milliseconds{200});
  EXPECT_EQ(leases().size(), 51u) << "not older than twice the others";
  wait(std::chrono::milliseconds{300});
  ASSERT_EQ(leases().size(), 52u);
  const PlacementProposed second = leases().back();
  EXPECT_EQ(second.placement_id, first_.placement_id);
  EXPECT_EQ(second.attempt, 2u);
  wait(std::chrono::seconds{2});
  EXPECT_EQ(leases().size(), 52u) << "two attempts, no more";
  EXPECT_TRUE(told().empty());
  answer(second, "executor/1", 5);
  answer(first_, "executor/0", 9);
  EXPECT_EQ(told(), (std::vector<double>{5}));
  EXPECT_EQ(dispatcher().counters().duplicated, 1u);
  EXPECT_EQ(dispatcher().counters().speculated, 1u);
  world_.advance(std::chrono::milliseconds{500});
  const auto progress = world_.last_sent<messages::RunProgress>();
  EXPECT_EQ(progress.refused, 1u);
  EXPECT_EQ(progress.lost, 0u);
  EXPECT_EQ(progress.issued, progress.counted + progress.open + progress.expired + progress.refused);
}

TEST_F(StragglerTest, IsLeftAloneWhereThatIsSwitchedOff) {
  options_.speculate = 0;
  straggle();
  wait(std::chrono::seconds{5});
  EXPECT_EQ(leases().size(), 51u);
}

TEST_F(StragglerTest, IsLeftAloneWhileNobodyIsIdle) {
  straggle();
  for (std::uint64_t e = 51; e < 60; ++e) propose(e, 1);
  const std::size_t full = leases().size();
  wait(std::chrono::seconds{1});
  EXPECT_EQ(leases().size(), full) << "nobody is idle";
}

TEST_F(DispatcherTest, AnOverdueLeaseDoesNotHoldUpWhatItsHolderCouldDo) {
  options_.placements_per_lease = 1;
  options_.evaluation_limit = std::chrono::milliseconds{100};
  options_.speculate = 0;
  start();
  join("executor/0");
  propose(0, 1);
  const auto beat = [&] {
    messages::Heartbeat heartbeat{"executor/0", 1, {leases()[0].lease_epoch}, 0};
    world_.deliver(dispatcher_, heartbeat, {}, runtime::actor_id("executor/0"));
    world_.advance(std::chrono::milliseconds{500});
  };
  beat();
  propose(1, 1);
  ASSERT_EQ(leases().size(), 2u);
  EXPECT_EQ(leases()[1].placement_id, 100u);
  beat();
  join("executor/1");
  EXPECT_EQ(leases().size(), 4u) << "both are overdue, and somebody else is there now";
  answer(leases()[2], "executor/1");
  EXPECT_EQ(world_.sent<MeasurementReported>().size(), 1u);
}

TEST_F(DispatcherTest, ASlowExecutorDoesNotHoardWhatAFastOneCouldDo) {
  options_.placements_per_lease = 4;
  options_.window = 512;
  start();
  std::map<std::string, Nanos> delays;
  for (std::uint32_t e = 0; e < 8; ++e)
    delays[executor_name(e)] = std::chrono::milliseconds{e < 4 ? 10 : 100};
  for (const auto& [name, delay] : delays) {
    ExecutorOptions executor;
    executor.delay = delay;
    world_.spawn<ExecutorActor>(name, task_, executor, simulate());
  }
  world_.run_until_idle();
  constexpr std::uint32_t kEpisodes = 1'000;
  for (std::uint64_t e = 0; e < kEpisodes; ++e) propose(e, 4);
  const auto done = [&] { return dispatcher().in_flight() == 0; };
  world_.advance(std::chrono::minutes{10}, done);
  ASSERT_TRUE(done());
  // The rates add up; the last lease of a slow one may end late by what it held.
  const double ideal_s = 4.0 * kEpisodes / (4 / 0.010 + 4 / 0.100);
  const double took_s = std::chrono::duration<double>(world_.now()).count();
  EXPECT_LE(took_s, ideal_s + 2 * 4 * 0.100);
  EXPECT_GE(took_s, ideal_s);
  EXPECT_EQ(dispatcher().counters().lost, 0u);
}

TEST_F(DispatcherTest, ExecutorActorMeasuresWhatItIsLeased) {
  start();
  ExecutorOptions executor;
  executor.window = 4;
  world_.spawn<ExecutorActor>("executor/0", task_, executor, simulate());
  world_.run_until_idle();
  propose(3, 3);
  world_.run_until_idle();
  const auto reported = world_.last_sent<MeasurementReported>();
  EXPECT_EQ(reported.measured.valid, (std::vector<std::uint8_t>{1, 1, 1}));
  EXPECT_DOUBLE_EQ(reported.measured.step_time_s[0], 4e-6);
}

}  // namespace
}  // namespace emplace::actors

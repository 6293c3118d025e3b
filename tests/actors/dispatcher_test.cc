// Goal: the dispatcher keeps its contract.  Method: messages delivered by hand in a simulated world: no
// thread, no socket, no sleep; numbers exact in binary.
#include <gtest/gtest.h>

#include <map>

#include "actors/executor_actor.h"
#include "tests/actors/dispatcher_world.h"

namespace emplace::actors {
namespace {

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
  EXPECT_TRUE(world_.sent<EpisodeReported>().empty());
  answer(leases()[0], "executor/0", 1);
  const auto reported = world_.last_sent<EpisodeReported>();
  EXPECT_EQ(reported.measured.step_time_s, (std::vector<double>{1, 1, 2}));
  EXPECT_EQ(reported.actions.size, 1u);
  EXPECT_EQ(dispatcher().in_flight(), 0u);
}

TEST_F(DispatcherTest, SendsNoMoreThanTheCreditAndContinuesWhenItReturns) {
  start();
  join("executor/0", 1, 2);
  propose(1, 4);
  EXPECT_EQ(leases().size(), 1u);
  answer(leases()[0], "executor/0");
  EXPECT_EQ(leases().size(), 2u) << "the credit returned with the result";
}

TEST_F(DispatcherTest, WantsAsManyExecutorsAsItsOpenWorkWouldKeepBusy) {
  start();
  const auto wanted = [&] {
    world_.advance(std::chrono::milliseconds{500});
    return world_.last_sent<messages::DispatchProgress>().executors_wanted;
  };
  EXPECT_EQ(wanted(), 0u);
  propose(1, 12);
  EXPECT_EQ(wanted(), 1u) << "nothing is known of their speed";
  join("executor/0");
  world_.advance(std::chrono::milliseconds{800});
  answer(leases()[0], "executor/0");  // 0.4 s a placement; 8 of the 10 open ones wait.
  EXPECT_EQ(wanted(), 4u);
  world_.deliver(dispatcher_, messages::StopRun{"budget"}, {}, runtime::actor_id("test"));
  EXPECT_EQ(wanted(), 0u);
}

TEST_F(DispatcherTest, ExpiredLeaseIsReassignedAndItsLateResultDoesNotCount) {
  start();
  join("executor/0", 1, 2);
  propose(1, 2);
  const LeaseGranted first = leases().at(0);
  join("executor/1", 1, 2);
  for (int beat = 0; beat < 6; ++beat) {
    world_.deliver(dispatcher_, messages::Heartbeat{"executor/1", 1, {}, 0}, {},
                   runtime::actor_id("executor/1"));
    world_.advance(std::chrono::milliseconds{500});
  }
  ASSERT_EQ(leases().size(), 2u);
  EXPECT_NE(leases()[1].lease_epoch, first.lease_epoch);
  EXPECT_EQ(dispatcher().leases().counters().expired, 1u);
  answer(first, "executor/0", 9);
  EXPECT_EQ(dispatcher().counters().refused_results, 1u);
  EXPECT_TRUE(world_.sent<EpisodeReported>().empty());
  answer(leases()[1], "executor/1", 5);
  EXPECT_EQ(world_.last_sent<EpisodeReported>().measured.step_time_s, (std::vector<double>{5, 5}));
  answer(leases()[1], "executor/1", 5);
  EXPECT_EQ(world_.sent<EpisodeReported>().size(), 1u) << "a repeated result counts once";
}

TEST_F(DispatcherTest, CreditOfAnExpiredLeaseReturnsWithItsLateResult) {
  start();
  join("executor/0", 1, 2);
  propose(1, 2);
  world_.advance(std::chrono::seconds{3});
  ASSERT_EQ(dispatcher().leases().counters().expired, 1u);
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

TEST_F(DispatcherTest, LeaseInFlightIsKeptForAWhile) {
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
  EXPECT_EQ(dispatcher().leases().counters().expired, 0u) << "a slow link is not a dead one";
  beats(8, leases()[0].lease_epoch - 1);
  EXPECT_GE(dispatcher().leases().counters().expired, 1u) << "it will not arrive any more";
}

TEST_F(DispatcherTest, MessagesOfAnotherActorAreRefused) {
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
  world_.deliver(dispatcher_, messages::ExecutorJoined{"executor/0", "here", "sim", "hash", 2, 9}, {},
                 forger);
  EXPECT_EQ(dispatcher().leases().counters().expired, 0u);
  answer(leases()[0], "executor/0");
  EXPECT_EQ(world_.sent<EpisodeReported>().size(), 1u);
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
  EXPECT_EQ(dispatcher().leases().counters().expired, 0u);
  EXPECT_EQ(leases().size(), 1u);
}

TEST_F(DispatcherTest, NewIncarnationOfAnExecutorLosesItsOldLeases) {
  start();
  join("executor/0", 1);
  propose(1, 2);
  join("executor/0", 2);
  ASSERT_EQ(leases().size(), 2u);
  answer(leases()[0], "executor/0", 9);
  EXPECT_EQ(dispatcher().counters().refused_results, 1u);
  answer(leases()[1], "executor/0", 1);
  EXPECT_EQ(world_.last_sent<EpisodeReported>().measured.step_time_s[0], 1);
}

TEST_F(DispatcherTest, LeasesOfALeavingExecutorAreReassignedAtOnce) {
  options_.placements_per_lease = 1;
  options_.horizon = std::chrono::hours{1};
  start();
  join("executor/0");
  propose(1, 3);
  answer(leases()[0], "executor/0");  // Its speed is known now, so it may hold more than two.
  propose(2, 1);
  ASSERT_EQ(leases().size(), 4u);
  join("executor/1");
  // It holds the second one, has answered the third, and the fourth is in flight.
  const messages::ExecutorLeft left{
      "executor/0", 1, "asked to", {leases()[1].lease_epoch}, leases()[2].lease_epoch};
  world_.deliver(dispatcher_, left, {}, runtime::actor_id("executor/0"));
  ASSERT_EQ(leases().size(), 6u);
  EXPECT_EQ(leases()[4].placement_id, leases()[1].placement_id);
  EXPECT_EQ(leases()[5].placement_id, leases()[3].placement_id);
  answer(leases()[2], "executor/0");
  EXPECT_EQ(dispatcher().counters().reported, 2u) << "in flight when it left";
  answer(leases()[1], "executor/0");
  EXPECT_EQ(dispatcher().counters().refused_results, 1u) << "given back";
  answer(leases()[4], "executor/1");
  answer(leases()[5], "executor/1");
  EXPECT_EQ(dispatcher().in_flight(), 0u);
  world_.advance(std::chrono::milliseconds{500});
  const auto progress = world_.last_sent<messages::DispatchProgress>();
  EXPECT_EQ(progress.leases.refused, 2u);
  EXPECT_EQ(progress.leases.expired, 0u);
  expect_adds_up(progress.leases);
  EXPECT_EQ(progress.executors.size(), 1u);
}

TEST_F(DispatcherTest, ExecutorsOfOtherKindsGetNoWork) {
  options_.kinds = {"cpu", "sim"};
  start();
  messages::ExecutorJoined fake{"executor/9", "here", "fake", "hash", 2, 1, 4, 1 << 20};
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
  EXPECT_EQ(dispatcher().leases().counters().expired, 1u) << "a new incarnation of another kind";
  EXPECT_EQ(leases().size(), 1u);
}

TEST_F(DispatcherTest, ExecutorReturnsItsWorkWhenItsNodeStops) {
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
  EXPECT_EQ(dispatcher().leases().counters().expired, 0u);
  EXPECT_EQ(dispatcher().counters().refused_results, 0u) << "it did not continue its work";
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

TEST_F(DispatcherTest, RepeatsReportsUntilTheRecorderAcknowledges) {
  start();
  join("executor/0");
  propose(0, 1);
  answer(leases()[0], "executor/0");
  world_.advance(std::chrono::milliseconds{2500});
  EXPECT_GE(world_.sent<EpisodeReported>().size(), 3u);
  world_.deliver(dispatcher_, messages::EpisodesRecorded{{0}, 1});
  world_.clear_log();
  world_.advance(std::chrono::seconds{3});
  EXPECT_TRUE(world_.sent<EpisodeReported>().empty());
  propose(0, 1);
  EXPECT_EQ(dispatcher().counters().proposed, 1u) << "a repeat of what is on disk";
}

TEST_F(DispatcherTest, RequestsMissingEpisodesAndUnknownExecutors) {
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

TEST_F(DispatcherTest, EndsAfterTheRequestedEpisodesOnceSamplersHaveDrained) {
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
  const std::size_t asked = world_.sent<messages::CountRequested>().size();
  const messages::SamplerDrained drained{"sampler/0"};
  world_.deliver(dispatcher_, drained, {}, runtime::actor_id("executor/0"));
  EXPECT_EQ(world_.sent<messages::CountRequested>().size(), asked) << "no actor drains another";
  world_.deliver(dispatcher_, drained, {}, runtime::actor_id("sampler/0"));
  EXPECT_EQ(world_.sent<messages::CountRequested>().size(), asked + 1);
  EXPECT_FALSE(world_.stopped().has_value()) << "the last update may not be on disk";
  world_.deliver(dispatcher_, messages::EpisodesCounted{1, 1});
  EXPECT_FALSE(world_.stopped().has_value());
  world_.deliver(dispatcher_, messages::EpisodesCounted{1, 0});
  EXPECT_TRUE(world_.stopped().has_value());
  EXPECT_TRUE(world_.stopped()->empty()) << "a clean end";
}

TEST_F(DispatcherTest, OverdueLeaseDoesNotBlockItsHolder) {
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
  EXPECT_EQ(leases().size(), 4u) << "both are overdue, and another executor is there now";
  answer(leases()[2], "executor/1");
  EXPECT_EQ(world_.sent<EpisodeReported>().size(), 1u);
}

TEST_F(DispatcherTest, SlowExecutorDoesNotHoardWork) {
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
  // The rates add up; the run may end later by the last lease of a slow executor.
  const double ideal_s = 4.0 * kEpisodes / (4 / 0.010 + 4 / 0.100);
  const double took_s = std::chrono::duration<double>(world_.now()).count();
  EXPECT_LE(took_s, ideal_s + 2 * 4 * 0.100);
  EXPECT_GE(took_s, ideal_s);
  EXPECT_EQ(dispatcher().leases().counters().expired, 0u);
}

TEST_F(DispatcherTest, ExecutorActorMeasuresItsLeases) {
  start();
  ExecutorOptions executor;
  executor.window = 4;
  world_.spawn<ExecutorActor>("executor/0", task_, executor, simulate());
  world_.run_until_idle();
  propose(3, 3);
  world_.run_until_idle();
  const auto reported = world_.last_sent<EpisodeReported>();
  EXPECT_EQ(reported.measured.valid, (std::vector<std::uint8_t>{1, 1, 1}));
  EXPECT_DOUBLE_EQ(reported.measured.step_time_s[0], 4e-6);
}

}  // namespace
}  // namespace emplace::actors

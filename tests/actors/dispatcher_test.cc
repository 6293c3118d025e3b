// Goal: the dispatcher keeps its promises.  Method: messages delivered by hand in a simulated world: no
// thread, no socket, no sleep; numbers exact in binary.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "actors/dispatcher.h"
#include "actors/executor_actor.h"
#include "executor/sim/simulator.h"
#include "runtime/sim/world.h"
#include "tests/support/sample_graphs.h"

namespace emplace::actors {
namespace {

using messages::EpisodeReported;
using messages::LeaseGranted;
using messages::PlacementMeasured;
using messages::PlacementProposed;
using runtime::sim::World;

void expect_adds_up(const messages::LeaseCounts& leases) {
  EXPECT_EQ(leases.issued, leases.counted + leases.open + leases.expired + leases.refused);
}

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
    messages::ExecutorJoined joined{name, "here", "sim", "hash", 2, epoch};
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
  std::vector<LeaseGranted> leases() const { return world_.sent<LeaseGranted>(); }
  void answer(const LeaseGranted& lease, const std::string& executor, double step_time_s = 1) {
    world_.deliver(dispatcher_, result_of(lease, executor, step_time_s), {}, runtime::actor_id(executor));
  }
  static PlacementMeasured result_of(const LeaseGranted& lease, const std::string& executor,
                                     double step_time_s) {
    PlacementMeasured m;
    m.placement_id = lease.placement_id;
    m.executor = executor;
    m.executor_kind = "sim";
    m.host = "here";
    m.lease_epoch = lease.lease_epoch;
    m.resize(lease.count, 2);
    m.valid.assign(lease.count, 1);
    m.step_time_s.assign(lease.count, step_time_s);
    return m;
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
  EXPECT_TRUE(world_.sent<EpisodeReported>().empty());
  answer(leases()[0], "executor/0", 1);
  const auto reported = world_.last_sent<EpisodeReported>();
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

TEST_F(DispatcherTest, AnExpiredLeaseGoesToAnotherAndTheLateResultDoesNotCount) {
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
  EXPECT_EQ(dispatcher().leases().counters().expired, 0u) << "a slow line is no dead one";
  beats(8, leases()[0].lease_epoch - 1);
  EXPECT_GE(dispatcher().leases().counters().expired, 1u) << "it will not come any more";
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

TEST_F(DispatcherTest, ANewLifeOfAnExecutorLosesWhatTheOldOneHeld) {
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

TEST_F(DispatcherTest, ExecutorsOfAKindThatDoesNotCountAreLeftAlone) {
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
  EXPECT_EQ(dispatcher().leases().counters().expired, 1u) << "a new life that does not count";
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
  EXPECT_EQ(dispatcher().leases().counters().expired, 0u);
  EXPECT_EQ(dispatcher().counters().refused_results, 0u) << "it went on with nothing";
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
  EXPECT_GE(world_.sent<EpisodeReported>().size(), 3u);
  world_.deliver(dispatcher_, messages::EpisodesRecorded{{0}, 1});
  world_.clear_log();
  world_.advance(std::chrono::seconds{3});
  EXPECT_TRUE(world_.sent<EpisodeReported>().empty());
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

/// One executor is bad; what it answers is made by `answer_badly`. Others may be there too.
class BadExecutorTest : public DispatcherTest {
 protected:
  BadExecutorTest() { options_.placements_per_lease = 1; }
  static constexpr const char* kBad = "executor/0";
  static constexpr const char* kGood = "executor/1";

  /// Lets time pass; all who have joined show that they live, and answer what they were given meanwhile.
  void live(Nanos time) {
    for (const Nanos end = world_.now() + time; world_.now() < end && !world_.stopped();) {
      answer_all();
      for (const std::string& name : present_)
        world_.deliver(dispatcher_, messages::Heartbeat{name, 1, {}, 0}, {}, runtime::actor_id(name));
      world_.advance(std::chrono::milliseconds{100});
    }
  }
  void come(const std::string& name) {
    join(name);
    present_.push_back(name);
  }
  void answer_all() {
    for (; answered_ < world_.log().size(); ++answered_) {
      const runtime::sim::Packet packet = world_.log()[answered_];
      if (packet.envelope.type != LeaseGranted::kType) continue;
      const auto lease = *messages::decode_body<LeaseGranted>(packet.body);
      if (packet.envelope.to == runtime::actor_id(kBad)) {
        PlacementMeasured m = result_of(lease, kBad, 1);
        ++asked_bad_;
        answer_badly_(m);
        world_.deliver(dispatcher_, m, {}, runtime::actor_id(kBad));
      } else {
        answer(lease, kGood);
      }
    }
  }
  std::uint64_t reported() const { return world_.sent<EpisodeReported>().size(); }

  std::vector<std::string> present_;
  std::size_t answered_ = 0;
  int asked_bad_ = 0;
  std::function<void(PlacementMeasured&)> answer_badly_ = [](PlacementMeasured& m) { m.error = "boo"; };
};

TEST_F(BadExecutorTest, EndsTheRunWithItsReasonIfItIsTheOnlyOne) {
  answer_badly_ = [](PlacementMeasured& m) {
    const std::uint64_t lease = m.lease_epoch;
    m = {};
    m.executor = kBad;
    m.lease_epoch = lease;
    m.error = "no kernel for conv9d";
  };
  start();
  come(kBad);
  propose(1, 1);
  live(std::chrono::seconds{5});
  EXPECT_FALSE(world_.stopped().has_value()) << "it may pass, or another may come";
  live(std::chrono::seconds{10});
  ASSERT_TRUE(world_.stopped().has_value());
  EXPECT_EQ(*world_.stopped(),
            "executor/0 cannot measure: no kernel for conv9d; no other executor could do it either");
}

TEST_F(BadExecutorTest, IsQuarantinedAndTheOthersDoItsWork) {
  start();
  come(kBad);
  come(kGood);
  for (std::uint64_t e = 0; e < 40; ++e) {
    propose(e, 2);
    live(std::chrono::milliseconds{500});
  }
  live(std::chrono::seconds{60});
  EXPECT_FALSE(world_.stopped().has_value()) << *world_.stopped();
  EXPECT_EQ(dispatcher().in_flight(), 0u);
  EXPECT_EQ(dispatcher().counters().reported, 80u);
  EXPECT_LE(asked_bad_, 3 + 6) << "three strikes, then one piece after 1, 2, 4, 8 … s";
  EXPECT_GE(dispatcher().counters().quarantines, 2u);
  EXPECT_EQ(dispatcher().counters().refused_results, static_cast<std::uint64_t>(asked_bad_));
}

TEST_F(BadExecutorTest, ItsQuarantineIsSeenAndItsLeasesEnd) {
  options_.window = 8;
  start();
  come(kGood);
  propose(0, 1);
  live(std::chrono::milliseconds{200});
  join(kBad, 1, 8);
  propose(1, 8);
  // It holds two; after the third failure it would hold others.
  for (int i = 0; i < 3; ++i) {
    const auto last = std::find_if(world_.log().rbegin(), world_.log().rend(), [](const auto& packet) {
      return packet.envelope.type == LeaseGranted::kType && packet.envelope.to == runtime::actor_id(kBad);
    });
    const auto lease = *messages::decode_body<LeaseGranted>(last->body);
    PlacementMeasured m = result_of(lease, kBad, 1);
    m.error = "boo";
    world_.deliver(dispatcher_, m, {}, runtime::actor_id(kBad));
  }
  world_.advance(std::chrono::milliseconds{600});
  const auto progress = world_.last_sent<messages::DispatchProgress>();
  EXPECT_EQ(progress.quarantined, 1u);
  EXPECT_EQ(progress.leases.expired, 0u);
  expect_adds_up(progress.leases);
  const auto counted = dispatcher().counters().reported;
  for (const runtime::sim::Packet& packet : std::vector{world_.log()})
    if (packet.envelope.type == LeaseGranted::kType && packet.envelope.to == runtime::actor_id(kBad))
      answer(*messages::decode_body<LeaseGranted>(packet.body), kBad);
  EXPECT_EQ(dispatcher().counters().reported, counted) << "its leases have ended";
}

TEST_F(BadExecutorTest, ThatIsGoodAgainIsAFullMemberAgain) {
  bool bad = true;
  answer_badly_ = [&](PlacementMeasured& m) { m.error = bad ? "boo" : ""; };
  start();
  come(kBad);
  for (std::uint64_t e = 0; e < 4; ++e) propose(e, 1);
  live(std::chrono::milliseconds{300});
  EXPECT_EQ(dispatcher().counters().quarantines, 1u);
  bad = false;
  live(std::chrono::seconds{3});
  EXPECT_EQ(dispatcher().in_flight(), 0u);
  EXPECT_FALSE(world_.stopped().has_value());
}

TEST_F(BadExecutorTest, WhatIsNoMeasurementNeverCounts) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<const char*, std::function<void(PlacementMeasured&)>>> answers{
      {"NaN", [](auto& m) { m.step_time_s[0] = kNan; }},
      {"inf", [](auto& m) { m.step_time_s[0] = kInf; }},
      {"-inf", [](auto& m) { m.step_time_s[0] = -kInf; }},
      {"-0.0 of what ran", [](auto& m) { m.step_time_s[0] = -0.0; }},
      {"negative", [](auto& m) { m.step_time_s[0] = -1e9; }},
      {"1e308", [](auto& m) { m.step_time_s[0] = 1e308; }},
      {"label 5", [](auto& m) { m.labels = {5}; }},
      {"valid 2", [](auto& m) { m.valid = {2}; }},
      {"INT64_MIN", [](auto& m) { m.peak_bytes[1] = std::numeric_limits<std::int64_t>::min(); }},
      {"over", [](auto& m) { m.bytes_over[0] = std::numeric_limits<std::int64_t>::max(); }},
      {"moved", [](auto& m) { m.bytes_moved[0] = -1; }},
      {"busy", [](auto& m) { m.busy_s[0] = kNan; }},
      {"wall", [](auto& m) { m.wall_s = kNan; }},
      {"share", [](auto& m) { m.synthetic_shares = {7}; }},
      {"samples", [](auto& m) { m.sample_counts = {1}, m.samples_s = {kNan}; }},
      {"many samples", [](auto& m) { m.sample_counts = {1'000'000}, m.samples_s.assign(1'000'000, 1.0); }},
      {"counts", [](auto& m) { m.sample_counts = {3}, m.samples_s = {1.0}; }},
      {"another placement", [](auto& m) { ++m.placement_id; }},
      {"another count", [](auto& m) { m.count = 0xffffffff; }},
      {"empty", [](auto& m) { m.valid.clear(), m.step_time_s.clear(); }},
      {"devices", [](auto& m) { m.num_devices = 0; }},
      {"a name", [](auto& m) { m.executor = kGood; }},
      {"a host", [](auto& m) { m.host.assign(1 << 20, 'x'); }},
      {"no UTF-8", [](auto& m) { m.executor_kind = "\xff<script>"; }},
      {"an error", [](auto& m) { m.error.assign(1 << 20, '\x1b'); }},
  };
  for (const auto& [what, change] : answers) {
    SCOPED_TRACE(what);
    world_.clear_log();
    if (dispatcher_ == runtime::ActorId{}) start();
    world_.crash(dispatcher_);  // A new one, which has nothing against anybody.
    world_.restart(dispatcher_);
    world_.run_until_idle();
    join(kBad);
    propose(1, 1);
    PlacementMeasured m = result_of(leases().back(), kBad, 1);
    change(m);
    world_.deliver(dispatcher_, m, {}, runtime::actor_id(kBad));
    EXPECT_EQ(reported(), 0u);
    EXPECT_EQ(dispatcher().counters().refused_results, 1u);
    join(kGood);
    answer(leases().back(), kGood);
    ASSERT_EQ(reported(), 1u) << "another one did it";
    EXPECT_EQ(world_.last_sent<EpisodeReported>().measured.executors, std::vector<std::string>{kGood});
  }
}

TEST_F(BadExecutorTest, WhatIsOnlyOddIsMendedAndCounts) {
  start();
  come(kBad);
  propose(1, 2);
  PlacementMeasured m = result_of(leases().at(0), kBad, 0);
  m.valid = {0};
  m.step_time_s = {-0.0};
  m.failures = {"crashed: \x1b[31m" + std::string(1 << 16, 'y') + "\xff"};
  m.wall_s = 1e6;
  world_.deliver(dispatcher_, m, {}, runtime::actor_id(kBad));
  answer(leases().at(1), kBad);
  const auto reported = world_.last_sent<EpisodeReported>().measured;
  EXPECT_FALSE(std::signbit(reported.step_time_s[0]));
  EXPECT_EQ(reported.attempt[0], 1u) << "which attempt it was the dispatcher knows";
  EXPECT_LE(reported.wall_s, 1) << "it did not have it for so long";
  EXPECT_EQ(reported.failures[0].substr(0, 16), "crashed: \\x1b[31");
  EXPECT_LE(reported.failures[0].size(), 1000u);
}

TEST_F(BadExecutorTest, AnotherMayTryWhatTwoHoldForEver) {
  options_.evaluation_limit = std::chrono::seconds{5};
  options_.speculate = 0;
  start();
  join("executor/7");
  join("executor/8");
  propose(1, 1);
  const auto hold = [&](Nanos time) {
    for (const Nanos end = world_.now() + time; world_.now() < end;) {
      std::vector<std::uint64_t> held;
      for (const LeaseGranted& lease : leases()) held.push_back(lease.lease_epoch);
      for (const char* name : {"executor/7", "executor/8"})
        world_.deliver(dispatcher_, messages::Heartbeat{name, 1, held, 0}, {}, runtime::actor_id(name));
      world_.advance(std::chrono::milliseconds{500});
    }
  };
  hold(std::chrono::seconds{6});
  EXPECT_EQ(leases().size(), 2u);
  join(kGood);
  hold(std::chrono::seconds{6});
  ASSERT_EQ(leases().size(), 3u);
  answer(leases().back(), kGood);
  EXPECT_EQ(reported(), 1u);
}

TEST_F(BadExecutorTest, WhoComesAndGoesWithAPieceIsAskedLast) {
  start();
  join(kGood);
  propose(1, 1);
  world_.advance(std::chrono::milliseconds{100});
  answer(leases().back(), kGood);
  const auto asked = [&] { return world_.last_of(LeaseGranted::kType)->envelope.to; };
  for (std::uint64_t epoch = 2; epoch < 10; ++epoch) {
    join(kBad, epoch);
    propose(epoch, 1);
    ASSERT_EQ(asked(), runtime::actor_id(kBad)) << "never measured: it goes first";
    world_.deliver(dispatcher_, messages::ExecutorLeft{kBad, epoch, "", {leases().back().lease_epoch}, 0}, {},
                   runtime::actor_id(kBad));
    join(kBad, epoch + 100);
    ASSERT_EQ(asked(), runtime::actor_id(kGood));
    answer(leases().back(), kGood);
  }
  EXPECT_EQ(dispatcher().in_flight(), 0u);
}

TEST_F(BadExecutorTest, WhoLosesItsLeasesIsAskedAfterThoseWhoAnswer) {
  start();
  join(kGood);
  const auto beat = [&](const char* name) {  // Without the leases that it was given.
    world_.deliver(dispatcher_, messages::Heartbeat{name, 1, {}, 0}, {}, runtime::actor_id(name));
  };
  propose(1, 1);
  world_.advance(std::chrono::milliseconds{100});
  answer(leases().back(), kGood);
  join(kBad);
  const auto asked = [&] { return world_.last_of(LeaseGranted::kType)->envelope.to; };
  propose(2, 1);
  ASSERT_EQ(asked(), runtime::actor_id(kBad)) << "never measured: it goes first";
  for (int i = 0; i < 20; ++i) {
    beat(kGood);
    beat(kBad);
    world_.advance(std::chrono::milliseconds{100});
  }
  ASSERT_EQ(asked(), runtime::actor_id(kGood));
  answer(leases().back(), kGood);
  for (std::uint64_t episode = 3; episode < 20; ++episode) {
    propose(episode, 1);
    ASSERT_EQ(asked(), runtime::actor_id(kGood));
    answer(leases().back(), kGood);
  }
}

TEST_F(BadExecutorTest, WhatItSaysOfItsSpeedIsNotBelieved) {
  options_.window = 512;
  start();
  join(kBad, 1, 512);
  propose(1, 1);
  world_.deliver(dispatcher_, messages::Heartbeat{kBad, 1, {leases()[0].lease_epoch}, 0}, {},
                 runtime::actor_id(kBad));
  world_.advance(std::chrono::seconds{1});
  PlacementMeasured m = result_of(leases().at(0), kBad, 1);
  m.wall_s = 1e-9;
  world_.deliver(dispatcher_, m, {}, runtime::actor_id(kBad));
  propose(2, 100);
  EXPECT_EQ(leases().size(), 1u + 2u) << "one in work and one at hand, of one that takes a second";
}

TEST_F(BadExecutorTest, AHostThatCannotBeShownJoinsNobody) {
  start();
  messages::ExecutorJoined joined{kBad, "\xff\x1b[31m", "sim", "hash", 2, 1, 4, 1 << 20};
  world_.deliver(dispatcher_, joined, {}, runtime::actor_id(kBad));
  propose(1, 1);
  EXPECT_TRUE(leases().empty());
}

/// An episode that its sampler measured itself, of this run.
EpisodeReported own_report() {
  EpisodeReported reported;
  messages::EpisodeMeasured& m = reported.measured;
  m.graph_sha256 = "hash";
  m.count = 1;
  m.num_ops = 4;
  m.num_devices = 2;
  m.executors = {"sampler/0"};
  m.executor_kinds = {"sim"};
  m.hosts = {"here"};
  m.resize(m.count, m.num_devices);
  m.valid = {1};
  m.step_time_s = {1};
  reported.placements = {0, 4};
  return reported;
}

TEST_F(DispatcherTest, WhatASamplerMeasuresIsHeldToTheSame) {
  start();
  const auto report = [&](const std::function<void(EpisodeReported&)>& change) {
    EpisodeReported reported = own_report();
    change(reported);
    world_.deliver(dispatcher_, reported, messages::SharedBytes::copy(messages::Bytes(4)),
                   runtime::actor_id("sampler/0"));
  };
  report([](auto& r) { r.measured.step_time_s = {std::numeric_limits<double>::quiet_NaN()}; });
  report([](auto& r) { r.measured.labels = {5}; });
  report([](auto& r) { r.measured.num_ops = 3; });
  report([](auto& r) { r.placements = {0, 3}; });
  report([](auto& r) { r.measured.hosts = {"\xff"}; });
  EXPECT_EQ(dispatcher().counters().refused, 5u);
  EXPECT_TRUE(world_.sent<EpisodeReported>().empty());
  report([](auto&) {});
  EXPECT_EQ(world_.sent<EpisodeReported>().size(), 1u);
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
      for (const LeaseGranted& lease : leases()) held.push_back(lease.lease_epoch);
      for (const char* name : {"executor/0", "executor/1"})
        world_.deliver(dispatcher_, messages::Heartbeat{name, 1, held, 0}, {}, runtime::actor_id(name));
      world_.advance(std::min<Nanos>(std::chrono::milliseconds{500}, end - world_.now()));
    }
  }
  /// What the recorder is told of episode 50.
  std::vector<double> told() const {
    for (const EpisodeReported& reported : world_.sent<EpisodeReported>())
      if (reported.measured.episode == 50) return reported.measured.step_time_s;
    return {};
  }
  LeaseGranted first_;
};

TEST_F(StragglerTest, IsOvertakenByAnIdleExecutorAndTheFirstResultCounts) {
  straggle();
  wait(std::chrono::milliseconds{200});
  EXPECT_EQ(leases().size(), 51u) << "not older than twice the others";
  wait(std::chrono::milliseconds{300});
  ASSERT_EQ(leases().size(), 52u);
  const LeaseGranted second = leases().back();
  EXPECT_EQ(second.placement_id, first_.placement_id);
  EXPECT_EQ(second.attempt, 2u);
  wait(std::chrono::seconds{2});
  EXPECT_EQ(leases().size(), 52u) << "two attempts, no more";
  EXPECT_TRUE(told().empty());
  answer(second, "executor/1", 5);
  answer(first_, "executor/0", 9);
  EXPECT_EQ(told(), (std::vector<double>{5}));
  EXPECT_EQ(dispatcher().counters().refused_results, 1u);
  EXPECT_EQ(dispatcher().counters().speculated, 1u);
  world_.advance(std::chrono::milliseconds{500});
  const auto progress = world_.last_sent<messages::DispatchProgress>();
  EXPECT_EQ(progress.leases.refused, 1u);
  EXPECT_EQ(progress.leases.expired, 0u);
  expect_adds_up(progress.leases);
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
  EXPECT_EQ(world_.sent<EpisodeReported>().size(), 1u);
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
  EXPECT_EQ(dispatcher().leases().counters().expired, 0u);
}

TEST_F(DispatcherTest, ExecutorActorMeasuresWhatItIsLeased) {
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

// Goal: an executor that answers wrong values, no values or too late costs only its own work, and invalid
// values never count.  Method: as dispatcher_test.cc, with answers that a test damages.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "tests/actors/dispatcher_world.h"

namespace emplace::actors {
namespace {

/// One executor is bad: `answer_badly` damages its answers. Others may have joined too.
class BadExecutorTest : public DispatcherTest {
 protected:
  BadExecutorTest() { options_.placements_per_lease = 1; }
  static constexpr const char* kBad = "executor/0";
  static constexpr const char* kGood = "executor/1";

  /// Lets time pass; every executor that has joined sends heartbeats and answers its leases.
  void run_for(Nanos time) {
    for (const Nanos end = world_.now() + time; world_.now() < end && !world_.stopped();) {
      answer_all();
      for (const std::string& name : present_)
        world_.deliver(dispatcher_, messages::Heartbeat{name, 1, {}, 0}, {}, runtime::actor_id(name));
      world_.advance(std::chrono::milliseconds{100});
    }
  }
  void arrive(const std::string& name) {
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

TEST_F(BadExecutorTest, OnlyExecutorThatFailsEndsTheRunWithItsReason) {
  answer_badly_ = [](PlacementMeasured& m) {
    const std::uint64_t lease = m.lease_epoch;
    m = {};
    m.executor = kBad;
    m.lease_epoch = lease;
    m.error = "no kernel for conv9d";
  };
  start();
  arrive(kBad);
  propose(1, 1);
  run_for(std::chrono::seconds{5});
  EXPECT_FALSE(world_.stopped().has_value()) << "it may pass, or another may come";
  run_for(std::chrono::seconds{10});
  ASSERT_TRUE(world_.stopped().has_value());
  EXPECT_EQ(*world_.stopped(),
            "executor/0 cannot measure: no kernel for conv9d; no other executor could do it either");
}

TEST_F(BadExecutorTest, QuarantinedExecutorsWorkGoesToOthers) {
  start();
  arrive(kBad);
  arrive(kGood);
  for (std::uint64_t e = 0; e < 40; ++e) {
    propose(e, 2);
    run_for(std::chrono::milliseconds{500});
  }
  run_for(std::chrono::seconds{60});
  EXPECT_FALSE(world_.stopped().has_value()) << *world_.stopped();
  EXPECT_EQ(dispatcher().in_flight(), 0u);
  EXPECT_EQ(dispatcher().counters().reported, 80u);
  EXPECT_LE(asked_bad_, 3 + 6) << "three strikes, then one piece after 1, 2, 4, 8 … s";
  EXPECT_GE(dispatcher().counters().quarantines, 2u);
  EXPECT_EQ(dispatcher().counters().refused_results, static_cast<std::uint64_t>(asked_bad_));
}

TEST_F(BadExecutorTest, QuarantineIsReportedAndEndsItsLeases) {
  options_.window = 8;
  start();
  arrive(kGood);
  propose(0, 1);
  run_for(std::chrono::milliseconds{200});
  join(kBad, 1, 8);
  propose(1, 8);
  // It holds two leases; after the third failure it would hold others.
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

TEST_F(BadExecutorTest, RecoveredExecutorGetsFullWorkAgain) {
  bool bad = true;
  answer_badly_ = [&](PlacementMeasured& m) { m.error = bad ? "boo" : ""; };
  start();
  arrive(kBad);
  for (std::uint64_t e = 0; e < 4; ++e) propose(e, 1);
  run_for(std::chrono::milliseconds{300});
  EXPECT_EQ(dispatcher().counters().quarantines, 1u);
  bad = false;
  run_for(std::chrono::seconds{3});
  EXPECT_EQ(dispatcher().in_flight(), 0u);
  EXPECT_FALSE(world_.stopped().has_value());
}

TEST_F(BadExecutorTest, InvalidValuesNeverCount) {
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
    world_.crash(dispatcher_);  // The new dispatcher knows of no failures.
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

TEST_F(BadExecutorTest, OddValuesAreNormalizedAndCount) {
  start();
  arrive(kBad);
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
  EXPECT_EQ(reported.attempt[0], 1u) << "the dispatcher counts the attempts";
  EXPECT_LE(reported.wall_s, 1) << "it did not hold the lease that long";
  EXPECT_EQ(reported.failures[0].substr(0, 16), "crashed: \\x1b[31");
  EXPECT_LE(reported.failures[0].size(), 1000u);
}

TEST_F(BadExecutorTest, ThirdExecutorMayTakeOverWhatTwoHoldForever) {
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

TEST_F(BadExecutorTest, FlappingExecutorIsTriedLast) {
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

TEST_F(BadExecutorTest, ExecutorThatLosesLeasesIsTriedAfterOthers) {
  start();
  join(kGood);
  // Heartbeats that name none of the leases.
  const auto beat = [&](const char* name) {
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

TEST_F(BadExecutorTest, IgnoresSelfReportedSpeed) {
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

TEST_F(BadExecutorTest, UnprintableHostNameIsRefused) {
  start();
  messages::ExecutorJoined joined{kBad, "\xff\x1b[31m", "sim", "hash", 2, 1, 4, 1 << 20};
  world_.deliver(dispatcher_, joined, {}, runtime::actor_id(kBad));
  propose(1, 1);
  EXPECT_TRUE(leases().empty());
}

/// An episode of this run that its sampler measured itself.
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

TEST_F(DispatcherTest, ResultsOfASamplerAreValidatedToo) {
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

}  // namespace
}  // namespace emplace::actors

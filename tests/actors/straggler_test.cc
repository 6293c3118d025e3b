// Goal: a lease that takes much longer than others goes to an idle executor too, and counts once.
// Method: as dispatcher_test.cc.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/actors/dispatcher_world.h"

namespace emplace::actors {
namespace {

/// Fifty leases took 0.1 s each; then one takes longer, while a second executor is idle.
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
  /// Step times of episode 50 as reported to the recorder.
  std::vector<double> reported() const {
    for (const EpisodeReported& reported : world_.sent<EpisodeReported>())
      if (reported.measured.episode == 50) return reported.measured.step_time_s;
    return {};
  }
  LeaseGranted first_;
};

TEST_F(StragglerTest, GetsASecondExecutorAndTheFirstResultCounts) {
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
  EXPECT_TRUE(reported().empty());
  answer(second, "executor/1", 5);
  answer(first_, "executor/0", 9);
  EXPECT_EQ(reported(), (std::vector<double>{5}));
  EXPECT_EQ(dispatcher().counters().refused_results, 1u);
  EXPECT_EQ(dispatcher().counters().speculated, 1u);
  world_.advance(std::chrono::milliseconds{500});
  const auto progress = world_.last_sent<messages::DispatchProgress>();
  EXPECT_EQ(progress.leases.refused, 1u);
  EXPECT_EQ(progress.leases.expired, 0u);
  expect_adds_up(progress.leases);
}

TEST_F(StragglerTest, IsIgnoredWithoutSpeculation) {
  options_.speculate = 0;
  straggle();
  wait(std::chrono::seconds{5});
  EXPECT_EQ(leases().size(), 51u);
}

TEST_F(StragglerTest, IsIgnoredWhileNoExecutorIsIdle) {
  straggle();
  for (std::uint64_t e = 51; e < 60; ++e) propose(e, 1);
  const std::size_t full = leases().size();
  wait(std::chrono::seconds{1});
  EXPECT_EQ(leases().size(), full) << "no executor is idle";
}

}  // namespace
}  // namespace emplace::actors

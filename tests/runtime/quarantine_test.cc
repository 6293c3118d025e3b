// Goal: an executor that fails gets no work for a while, and a run ends only when no present executor can do
// the work. Method: events with given times; random histories of executors with known rates of failure.
#include "runtime/core/quarantine.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"

namespace emplace::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const messages::ActorId kBad = messages::actor_id("executor/0");
const messages::ActorId kGood = messages::actor_id("executor/1");
constexpr bool kIdle = true, kBusy = false;

/// Fails `times` new ranges.
bool fail(Quarantine& quarantine, messages::ActorId id, int times, Nanos now) {
  static std::uint64_t range = 1'000;
  bool quarantined = false;
  for (int i = 0; i < times; ++i) quarantined = quarantine.failed(++range, id, "boo", now);
  return quarantined;
}

TEST(Quarantine, ThreeFailuresInARowQuarantine) {
  Quarantine quarantine;
  quarantine.join(kBad, Nanos{0});
  EXPECT_FALSE(fail(quarantine, kBad, 2, Nanos{0}));
  EXPECT_TRUE(quarantine.may_take(1, kBad, kBusy, Nanos{0}));
  EXPECT_TRUE(fail(quarantine, kBad, 1, Nanos{0}));
  EXPECT_FALSE(quarantine.may_take(1, kBad, kIdle, milliseconds{999}));
  EXPECT_EQ(quarantine.quarantined(milliseconds{999}), 1u);
  EXPECT_EQ(quarantine.quarantined(seconds{1}), 0u);
  quarantine.join(kGood, Nanos{0});
  for (int i = 0; i < 1'000; ++i) {  // One of twenty fails.
    i % 20 == 0 ? (void)fail(quarantine, kGood, 1, Nanos{0})
                : quarantine.succeeded(static_cast<std::uint64_t>(i), kGood, Nanos{0});
    EXPECT_TRUE(quarantine.may_take(5'000, kGood, kBusy, Nanos{0})) << i;
  }
}

TEST(Quarantine, FailuresBetweenGoodResultsAddUp) {
  Quarantine quarantine;
  quarantine.join(kBad, Nanos{0});
  bool quarantined = false;
  for (std::uint64_t i = 0; i < 10 && !quarantined; ++i) {  // Every second one fails.
    quarantine.succeeded(i, kBad, Nanos{0});
    quarantined = fail(quarantine, kBad, 1, Nanos{0});
  }
  EXPECT_TRUE(quarantined) << "it fails half of its work";
}

TEST(Quarantine, ProbationAllowsOneRangeAtATimeUntilASuccess) {
  Quarantine quarantine;
  quarantine.join(kBad, Nanos{0});
  fail(quarantine, kBad, 3, Nanos{0});
  EXPECT_TRUE(quarantine.may_take(1, kBad, kIdle, seconds{1}));
  EXPECT_FALSE(quarantine.may_take(1, kBad, kBusy, seconds{1}));
  quarantine.succeeded(1, kBad, seconds{1});
  EXPECT_TRUE(quarantine.may_take(2, kBad, kBusy, seconds{1}));
  EXPECT_FALSE(fail(quarantine, kBad, 1, seconds{1})) << "a full member again";
}

TEST(Quarantine, DoublesAfterAFailedProbation) {
  Quarantine quarantine;
  quarantine.join(kBad, Nanos{0});
  fail(quarantine, kBad, 3, Nanos{0});
  Nanos now{seconds{1}}, longest{seconds{1}};
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(fail(quarantine, kBad, 1, now)) << "one is enough on probation";
    EXPECT_FALSE(fail(quarantine, kBad, 1, now)) << "what it had in hand before";
    longest = std::min<Nanos>(2 * longest, minutes{5});
    EXPECT_EQ(*quarantine.until(kBad) - now, longest);
    now = *quarantine.until(kBad);
  }
}

TEST(Quarantine, HundredGoodResultsResetTheDuration) {
  Quarantine quarantine;
  quarantine.join(kBad, Nanos{0});
  fail(quarantine, kBad, 3, Nanos{0});
  fail(quarantine, kBad, 1, seconds{1});
  Nanos now{seconds{10}};
  for (std::uint64_t i = 0; i < 99; ++i) quarantine.succeeded(i, kBad, now);
  fail(quarantine, kBad, 3, now);
  EXPECT_EQ(*quarantine.until(kBad) - now, seconds{4});
  now = *quarantine.until(kBad);
  for (std::uint64_t i = 0; i < 100; ++i) quarantine.succeeded(i, kBad, now);
  fail(quarantine, kBad, 3, now);
  EXPECT_EQ(*quarantine.until(kBad) - now, seconds{1});
}

TEST(Quarantine, LeavingAndJoiningChangesNothing) {
  QuarantineOptions options;
  options.remembered = 2;
  Quarantine quarantine{options};
  quarantine.join(kBad, Nanos{0});
  fail(quarantine, kBad, 3, Nanos{0});
  quarantine.leave(kBad, Nanos{0});
  EXPECT_EQ(quarantine.quarantined(Nanos{0}), 0u) << "it is not there";
  quarantine.join(kBad, Nanos{0});
  EXPECT_FALSE(quarantine.may_take(1, kBad, kIdle, Nanos{0}));
  quarantine.leave(kBad, Nanos{0});
  // The list of remembered ranges is bounded.
  for (std::uint32_t i = 2; i < 4; ++i) {
    const auto other = messages::actor_id("executor/" + std::to_string(i));
    quarantine.join(other, Nanos{0});
    fail(quarantine, other, 1, Nanos{0});
    quarantine.leave(other, Nanos{0});
  }
  EXPECT_TRUE(quarantine.may_take(1, kBad, kIdle, Nanos{0}));
}

TEST(Quarantine, FailedRangeGoesToAnotherAtOnceAndToTheSameAfterAPause) {
  Quarantine quarantine;
  quarantine.join(kBad, Nanos{0});
  quarantine.join(kGood, Nanos{0});
  (void)quarantine.failed(1, kBad, "boo", Nanos{0});
  EXPECT_FALSE(quarantine.may_take(1, kBad, kIdle, milliseconds{999}));
  EXPECT_TRUE(quarantine.may_take(1, kGood, kIdle, Nanos{0}));
  EXPECT_TRUE(quarantine.may_take(2, kBad, kIdle, Nanos{0})) << "another range";
  EXPECT_TRUE(quarantine.may_take(1, kBad, kIdle, seconds{1}));
  (void)quarantine.failed(1, kBad, "boo", seconds{1});
  EXPECT_FALSE(quarantine.may_take(1, kBad, kIdle, milliseconds{2'999}));
  EXPECT_TRUE(quarantine.may_take(1, kBad, kIdle, seconds{3}));
}

TEST(Quarantine, RunWithoutAWorkingExecutorEndsAfterTenSecondsWithTheCause) {
  Quarantine quarantine;
  quarantine.join(kBad, Nanos{0});
  std::uint64_t range = 0;
  for (Nanos now{0}; now < seconds{60}; now += milliseconds{250}) {
    if (const auto why = quarantine.hopeless(now)) {
      EXPECT_EQ(*why, "no kernel");
      EXPECT_GE(now, seconds{10});
      EXPECT_LE(now, seconds{12});
      return;
    }
    while (quarantine.may_take(++range, kBad, kIdle, now))
      (void)quarantine.failed(range, kBad, "no kernel", now);
  }
  FAIL() << "it never ended";
}

TEST(Quarantine, ProbationHasNoTimeLimit) {
  Quarantine quarantine;
  quarantine.join(kGood, Nanos{0});
  fail(quarantine, kGood, 3, Nanos{0});
  EXPECT_EQ(quarantine.hopeless(minutes{10}), std::nullopt) << "a measurement may take any time";
  quarantine.succeeded(1, kGood, minutes{10});
  EXPECT_EQ(quarantine.hopeless(minutes{20}), std::nullopt);
}

TEST(Quarantine, UntriedExecutorKeepsTheRunGoing) {
  Quarantine quarantine;
  quarantine.join(kGood, Nanos{0});
  for (std::uint32_t e = 2; e < 20; ++e)
    quarantine.join(messages::actor_id("executor/" + std::to_string(e)), Nanos{0});
  for (Nanos now{0}; now < minutes{10}; now += milliseconds{250}) {
    for (std::uint32_t e = 2; e < 20; ++e) {
      const auto bad = messages::actor_id("executor/" + std::to_string(e));
      if (quarantine.may_take(7, bad, kIdle, now)) (void)quarantine.failed(7, bad, "boo", now);
    }
    ASSERT_EQ(quarantine.hopeless(now), std::nullopt) << "the good executor has not been asked yet";
  }
}

TEST(Quarantine, RangeThatEveryExecutorFailsEndsTheRun) {
  Quarantine quarantine;
  quarantine.join(kBad, Nanos{0});
  quarantine.join(kGood, Nanos{0});
  for (Nanos now{0}; now < seconds{60}; now += milliseconds{100}) {
    if (const auto why = quarantine.hopeless(now)) {
      EXPECT_EQ(*why, "poisoned");
      EXPECT_LE(now, seconds{20});
      return;
    }
    for (const auto id : {kBad, kGood}) {
      for (std::uint64_t other = 100; other < 110; ++other) quarantine.succeeded(other, id, now);
      if (quarantine.may_take(1, id, kIdle, now)) (void)quarantine.failed(1, id, "poisoned", now);
    }
  }
  FAIL() << "it is tried without end";
}

TEST(Quarantine, AbsenceOfExecutorsDoesNotEndTheRun) {
  Quarantine quarantine;
  quarantine.join(kBad, Nanos{0});
  fail(quarantine, kBad, 3, Nanos{0});
  fail(quarantine, kBad, 1, seconds{1});
  quarantine.leave(kBad, seconds{2});
  EXPECT_EQ(quarantine.hopeless(minutes{10}), std::nullopt) << "executors may join at any time";
}

// In random histories of honest and failing executors that join and leave, the work is done if an honest one
// stays long enough, and a quarantine is never shorter than a second.
TEST(Quarantine, RandomHistoriesFinishTheWorkOfAnHonestExecutor) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest};
    Quarantine quarantine;
    struct Executor {
      messages::ActorId id;
      double fails = 0;
      bool present = false;
    };
    std::vector<Executor> executors;
    for (std::uint32_t e = 0; e < 2 + rng.below(6); ++e)
      executors.push_back({messages::actor_id("executor/" + std::to_string(e)),
                           e == 0              ? 0.0
                           : rng.below(2) == 0 ? 1.0
                                               : rng.uniform_double(),
                           false});
    quarantine.join(executors[0].id, Nanos{0});
    executors[0].present = true;
    std::vector<std::uint64_t> work;
    for (std::uint64_t range = 1; range <= 100; ++range) work.push_back(range);
    Nanos now{0};
    for (int step = 0; step < 20'000 && !work.empty(); ++step) {
      now += milliseconds{rng.below(50)};
      Executor& one = executors[rng.below(static_cast<std::uint32_t>(executors.size()))];
      if (&one != executors.data() && rng.below(4) == 0) {
        one.present ? quarantine.leave(one.id, now) : quarantine.join(one.id, now);
        one.present = !one.present;
      }
      const std::size_t at = rng.below(static_cast<std::uint32_t>(work.size()));
      if (!one.present || !quarantine.may_take(work[at], one.id, kIdle, now)) continue;
      if (rng.uniform_double() < one.fails) {
        if (quarantine.failed(work[at], one.id, "boo", now)) {
          EXPECT_GE(*quarantine.until(one.id) - now, seconds{1});
          EXPECT_FALSE(quarantine.may_take(9'999, one.id, kIdle, now));
        }
      } else {
        quarantine.succeeded(work[at], one.id, now);
        work.erase(work.begin() + static_cast<std::ptrdiff_t>(at));
      }
      ASSERT_EQ(quarantine.hopeless(now), std::nullopt);
    }
    EXPECT_TRUE(work.empty());
  }
}

}  // namespace
}  // namespace emplace::runtime

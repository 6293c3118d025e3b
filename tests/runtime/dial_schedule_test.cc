// Goal: a node redials its head soon, with growing delays, never together with other nodes, and not without
// end. Method: given failures and times; the jitter is seeded.
#include "runtime/core/dial_schedule.h"

#include <gtest/gtest.h>

#include <set>

namespace emplace::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

DialSchedule make(DialSchedule::Options options, std::uint64_t seed = 1) {
  return {options, Rng{seed, Purpose::kJitter, 0}, Nanos{0}};
}

TEST(DialSchedule, DelaysGrowToTwoSecondsAtMostAndFallAfterAJoin) {
  DialSchedule schedule = make({.timeout = seconds{30}});
  Nanos now{0};
  const auto longest_of = [&](int failures) {
    Nanos longest{0};
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      DialSchedule one = make({.timeout = seconds{30}}, seed);
      for (int i = 0; i < failures; ++i) {
        one.failed(now);
        longest = i + 1 == failures ? std::max(longest, *one.next() - now) : longest;
        EXPECT_TRUE(one.take_due(*one.next()));
      }
    }
    return longest;
  };
  EXPECT_LE(longest_of(1), milliseconds{100});
  EXPECT_GT(longest_of(1), milliseconds{80}) << "the whole interval is used";
  EXPECT_LE(longest_of(2), milliseconds{200});
  EXPECT_GT(longest_of(2), milliseconds{160});
  EXPECT_LE(longest_of(20), seconds{2});
  EXPECT_GT(longest_of(20), milliseconds{1'600});
  for (int i = 0; i < 20; ++i) {
    schedule.failed(now);
    now = *schedule.next();
    ASSERT_TRUE(schedule.take_due(now));
  }
  schedule.joined();
  schedule.failed(now);
  EXPECT_LE(*schedule.next() - now, milliseconds{100});
}

TEST(DialSchedule, NodesThatLoseTheirHeadRedialAtDifferentTimes) {
  std::set<Nanos> times;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    DialSchedule schedule = make({.timeout = seconds{30}}, seed);
    schedule.failed(seconds{1});
    times.insert(*schedule.next());
  }
  EXPECT_EQ(times.size(), 100u);
}

TEST(DialSchedule, DialIsDueOnce) {
  DialSchedule schedule = make({.timeout = seconds{30}});
  EXPECT_FALSE(schedule.waiting());
  EXPECT_FALSE(schedule.take_due(seconds{9}));
  schedule.failed(seconds{1});
  const Nanos due = *schedule.next();
  EXPECT_TRUE(schedule.waiting());
  EXPECT_FALSE(schedule.take_due(due - Nanos{1}));
  EXPECT_TRUE(schedule.take_due(due));
  EXPECT_FALSE(schedule.take_due(due));
  EXPECT_FALSE(schedule.waiting());
}

TEST(DialSchedule, GivesUpAfterTheSilenceThatItsPatienceAllows) {
  DialSchedule schedule = make({.timeout = seconds{30}, .first_timeout = seconds{5}});
  EXPECT_FALSE(schedule.gave_up(seconds{5}));
  EXPECT_TRUE(schedule.gave_up(seconds{5} + Nanos{1})) << "it never joined";
  schedule.received(seconds{6});
  schedule.joined();
  EXPECT_EQ(schedule.timeout(), Nanos{seconds{30}});
  EXPECT_FALSE(schedule.gave_up(seconds{36}));
  EXPECT_TRUE(schedule.gave_up(seconds{36} + Nanos{1}));
}

TEST(DialSchedule, PatienceHoldsFromTheStartWithoutAFirstPatience) {
  EXPECT_EQ(make({.timeout = seconds{30}}).timeout(), Nanos{seconds{30}});
}

TEST(DialSchedule, PauseOfTheNodeIsNotSilence) {
  DialSchedule schedule = make({.timeout = seconds{30}});
  schedule.skip_own_pause(seconds{60}, seconds{61});
  EXPECT_FALSE(schedule.gave_up(seconds{90}));
  EXPECT_TRUE(schedule.gave_up(seconds{90} + Nanos{1}));
  schedule.skip_own_pause(seconds{600}, seconds{91});
  EXPECT_FALSE(schedule.gave_up(seconds{121})) << "never later than now";
  EXPECT_TRUE(schedule.gave_up(seconds{121} + Nanos{1}));
}

}  // namespace
}  // namespace emplace::runtime

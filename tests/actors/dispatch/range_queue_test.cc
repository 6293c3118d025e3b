// Goal: no unfinished range is forgotten, and none is given away twice.
// Method: by hand, and random histories against a model with one state per range.
#include "actors/dispatch/range_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace emplace::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr messages::ActorId kFirst{1}, kSecond{2};

Range sample_range(std::uint64_t number, std::uint32_t count = 1) {
  return {.number = number, .count = count, .size = {count, 4 * count}};
}

/// Offers all ranges and returns those offered; gives away those in `taken`.
std::vector<std::uint64_t> offered(RangeQueue& queue, const std::set<std::uint64_t>& taken) {
  std::vector<std::uint64_t> offered;
  queue.offer([&](std::uint64_t range) {
    offered.push_back(range);
    return taken.contains(range);
  });
  return offered;
}

TEST(RangeQueue, OffersNewRangesInOrderUntilOneIsNotTaken) {
  RangeQueue queue;
  for (std::uint64_t number = 1; number <= 4; ++number) queue.add(sample_range(number));
  EXPECT_FALSE(queue.none_waiting());
  EXPECT_THAT(offered(queue, {1, 2, 4}), ElementsAre(1, 2, 3)) << "4 must not overtake 3";
  EXPECT_THAT(offered(queue, {3, 4}), ElementsAre(3, 4));
  EXPECT_TRUE(queue.none_waiting());
  EXPECT_EQ(queue.ranges(), 4u) << "given away is not finished";
}

TEST(RangeQueue, OffersOverdueRangesFirstThenAllFailedOnesThenTheOthers) {
  RangeQueue queue;
  for (std::uint64_t number = 1; number <= 5; ++number) queue.add(sample_range(number));
  offered(queue, {1, 2, 3, 4});
  queue.failed(1);
  queue.failed(2);
  queue.ended(1, kFirst, 0);
  queue.ended(2, kFirst, 0);
  queue.overdue(3);
  queue.overdue(4);
  EXPECT_THAT(offered(queue, {}), ElementsAre(3, 4, 1, 2, 5)) << "one that is not taken holds up no other";
  EXPECT_THAT(offered(queue, {4, 2}), ElementsAre(3, 4, 1, 2, 5));
  EXPECT_THAT(offered(queue, {}), ElementsAre(3, 1, 5));
}

TEST(RangeQueue, QueuesARangeOnceHoweverManyReasonsThereAre) {
  RangeQueue queue;
  queue.add(sample_range(1));
  queue.overdue(1);
  queue.ended(1, kFirst, 0);
  EXPECT_THAT(offered(queue, {1}), ElementsAre(1));
  queue.overdue(1);
  queue.overdue(1);
  queue.failed(1);
  queue.ended(1, kSecond, 0);
  EXPECT_THAT(offered(queue, {1}), ElementsAre(1));
  EXPECT_THAT(offered(queue, {1}), IsEmpty());
}

TEST(RangeQueue, WaitsWhileAnotherLeaseOfTheRangeIsOpen) {
  RangeQueue queue;
  queue.add(sample_range(1));
  offered(queue, {1});
  queue.ended(1, kFirst, 1);
  EXPECT_THAT(offered(queue, {1}), IsEmpty());
  queue.ended(1, kSecond, 0);
  EXPECT_THAT(offered(queue, {}), ElementsAre(1));
  EXPECT_THAT(queue.tried_by(1), ElementsAre(kFirst, kSecond));
}

TEST(RangeQueue, RemembersTheLastEightExecutorsOfARangeEachOnce) {
  RangeQueue queue;
  queue.add(sample_range(1));
  for (const std::uint64_t executor : {1, 2, 2, 3, 4, 5, 6, 7, 8, 1, 9})
    queue.ended(1, messages::ActorId{executor}, 1);
  std::vector<messages::ActorId> expected;
  for (std::uint64_t executor = 2; executor <= 9; ++executor) expected.push_back(messages::ActorId{executor});
  EXPECT_EQ(queue.tried_by(1), expected);
}

TEST(RangeQueue, NeverOffersAFinishedRange) {
  RangeQueue queue;
  queue.add(sample_range(1, 3));
  queue.add(sample_range(2, 2));
  EXPECT_EQ(queue.placements(), 5u);
  offered(queue, {1});
  queue.overdue(1);
  queue.done(1);
  queue.done(1);
  queue.overdue(1);
  EXPECT_EQ(queue.ranges(), 1u);
  EXPECT_EQ(queue.placements(), 2u) << "finished once";
  EXPECT_THAT(offered(queue, {2}), ElementsAre(2));
}

TEST(RangeQueue, ForgetsNoRangeInRandomHistories) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t bound) { return random() % bound; };
    RangeQueue queue;
    std::map<std::uint64_t, std::size_t> open;  // Open leases of each unfinished range.
    std::set<std::uint64_t> queued;
    std::uint64_t next = 1;
    for (int step = 0; step < 300; ++step) {
      const auto any = open.empty()
                           ? open.end()
                           : std::next(open.begin(), static_cast<std::ptrdiff_t>(below(open.size())));
      switch (below(5)) {
        case 0:
          queue.add(sample_range(next));
          queued.insert(next);
          open[next++] = 0;
          break;
        case 1: {
          std::set<std::uint64_t> seen;
          queue.offer([&](std::uint64_t range) {
            EXPECT_TRUE(open.contains(range)) << "finished";
            EXPECT_TRUE(queued.contains(range)) << "given away before";
            EXPECT_TRUE(seen.insert(range).second) << "offered twice";
            if (below(3) == 0) return false;
            ++open.at(range);
            queued.erase(range);
            return true;
          });
          break;
        }
        case 2:
          if (any == open.end() || any->second == 0) break;
          if (below(2) == 0) queue.failed(any->first);
          if (--any->second == 0) queued.insert(any->first);
          queue.ended(any->first, messages::ActorId{1 + below(12)}, any->second);
          break;
        case 3:
          if (any == open.end() || any->second == 0) break;
          queue.overdue(any->first);
          queued.insert(any->first);
          break;
        case 4:
          if (any == open.end() || any->second == 0) break;
          queue.done(any->first);
          queued.erase(any->first);
          open.erase(any);
          break;
      }
      ASSERT_EQ(queue.ranges(), open.size());
      for (const auto& [range, leases] : open)
        ASSERT_TRUE(leases > 0 || queued.contains(range)) << "the model itself lost a range";
    }
    std::set<std::uint64_t> rest;
    queue.offer([&](std::uint64_t range) { return rest.insert(range).second; });
    EXPECT_EQ(rest, queued) << "seed " << seed;
  }
}

}  // namespace
}  // namespace emplace::actors

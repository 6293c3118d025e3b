// Goal: no placement of an episode is lost or counted twice between its proposal and its last result.
// Method: proposals and results by hand, and random histories against a model of every placement.
#include "actors/dispatch/open_episodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <map>
#include <random>

#include "tests/actors/dispatch/sample_messages.h"

namespace emplace::actors {
namespace {

using ::testing::ElementsAre;

messages::PlacementMeasured result_of(const Range& range, double step_time_s) {
  return sample_result("executor/0", 1, 100 * range.episode + range.begin, range.count, step_time_s);
}

TEST(OpenEpisodes, RangesOfAnEpisodeCoverEachPlacementOnceAndInOrder) {
  for (std::uint32_t most = 1; most <= 5; ++most) {
    OpenEpisodes open{most};
    std::uint64_t number = 0;
    for (std::uint32_t count = 1; count <= 11; ++count) {
      const auto [proposal, bulk] = sample_proposal(count, count);
      std::uint32_t next = 0;
      for (const Range& range : open.add(proposal, bulk)) {
        EXPECT_EQ(range.number, ++number) << "numbers are never used again";
        EXPECT_EQ(range.episode, count);
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.count, 1u);
        EXPECT_LE(range.count, most);
        EXPECT_EQ(range.size, (runtime::Credit{range.count, std::int64_t{kSampleOps} * range.count}));
        next += range.count;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(OpenEpisodes, SendsTheHolderOfALeaseThePlacementsOfItsRange) {
  OpenEpisodes open{2};
  const auto [proposal, bulk] = sample_proposal(3, 5);
  const std::vector<Range> ranges = open.add(proposal, bulk);
  ASSERT_EQ(ranges.size(), 3u);
  runtime::Lease lease{.epoch = 40, .item = ranges[2].number, .attempt = 2};
  lease.granted = std::chrono::seconds{1};
  lease.evaluate_until = std::chrono::seconds{3};
  const messages::LeaseGranted message = open.message_for(lease, 9);
  EXPECT_EQ(message.graph_sha256, "hash");
  EXPECT_EQ(message.placement_id, 304u);
  EXPECT_EQ(message.count, 1u);
  EXPECT_EQ(message.num_ops, kSampleOps);
  EXPECT_EQ(message.num_devices, kSampleDevices);
  EXPECT_EQ(message.lease_epoch, 40u);
  EXPECT_EQ(message.attempt, 2u);
  EXPECT_EQ(message.deadline_ms, 2000u);
  EXPECT_EQ(message.executor_epoch, 9u);
  const messages::SharedBytes placements = open.placements_of(ranges[2].number);
  ASSERT_EQ(placements.size(), message.placements.size);
  for (const std::byte device : placements.bytes()) EXPECT_EQ(device, std::byte{4});
  lease.evaluate_until = std::chrono::hours{24 * 365};
  EXPECT_EQ(open.message_for(lease, 9).deadline_ms, std::numeric_limits<std::uint32_t>::max())
      << "a limit that the message cannot express is the longest one";
}

TEST(OpenEpisodes, FinishesAnEpisodeWithItsLastResultWhateverTheOrder) {
  OpenEpisodes open{2};
  const auto [proposal, bulk] = sample_proposal(1, 5);
  const std::vector<Range> ranges = open.add(proposal, bulk);
  EXPECT_FALSE(open.merge(ranges[1].number, result_of(ranges[1], 2), 1));
  EXPECT_FALSE(open.merge(ranges[2].number, result_of(ranges[2], 3), 4));
  EXPECT_TRUE(open.contains(1));
  const auto finished = open.merge(ranges[0].number, result_of(ranges[0], 1), 1);
  ASSERT_TRUE(finished);
  EXPECT_THAT(finished->reported.measured.step_time_s, ElementsAre(1, 1, 2, 2, 3));
  EXPECT_THAT(finished->reported.measured.attempt, ElementsAre(1, 1, 1, 1, 4));
  EXPECT_EQ(finished->reported.placements.offset, proposal.placements.offset);
  EXPECT_EQ(finished->reported.actions.size, 1u);
  EXPECT_EQ(finished->bulk.owner(), bulk.owner()) << "the frame is shared, not copied";
  EXPECT_FALSE(open.contains(1));
}

TEST(OpenEpisodes, NeitherLosesNorRepeatsAPlacementInRandomHistories) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t bound) { return random() % bound; };
    OpenEpisodes open{1 + static_cast<std::uint32_t>(below(4))};
    std::vector<Range> ranges;                          // Open ranges.
    std::map<std::uint64_t, std::vector<double>> want;  // Step times of open episodes [placements].
    std::uint64_t added = 0, merged = 0, finished = 0, next = 0;
    for (int step = 0; step < 200 || !ranges.empty(); ++step) {
      if (step < 200 && below(3) == 0) {
        const auto count = 1 + static_cast<std::uint32_t>(below(9));
        const auto [proposal, bulk] = sample_proposal(next, count);
        for (const Range& range : open.add(proposal, bulk)) ranges.push_back(range);
        want[next++].assign(count, 0);
        added += count;
      } else if (!ranges.empty()) {
        const std::size_t chosen = below(ranges.size());
        const Range range = ranges[chosen];
        ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(chosen));
        const double step_time_s = 1 + static_cast<double>(below(1000));
        std::vector<double>& times = want.at(range.episode);
        for (std::uint32_t i = 0; i < range.count; ++i) times[range.begin + i] = step_time_s;
        merged += range.count;
        if (const auto done = open.merge(range.number, result_of(range, step_time_s), 1)) {
          ++finished;
          EXPECT_EQ(done->reported.measured.episode, range.episode);
          EXPECT_EQ(done->reported.measured.step_time_s, times);
          EXPECT_EQ(want.erase(range.episode), 1u) << "finished once";
        }
      }
      std::uint64_t in_ranges = 0;
      for (const Range& range : ranges) in_ranges += range.count;
      EXPECT_EQ(added, merged + in_ranges);
      EXPECT_EQ(open.ranges(), ranges.size());
      EXPECT_EQ(open.episodes(), want.size());
    }
    EXPECT_EQ(finished, next) << "seed " << seed;
  }
}

}  // namespace
}  // namespace emplace::actors

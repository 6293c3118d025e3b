// Goal: an episode is merged from the results of its leases, each in its place, and lengths are always
// checked.
#include "messages/episode_measured.h"

#include <gtest/gtest.h>

namespace emplace::messages {
namespace {

PlacementMeasured lease(std::uint64_t first, std::uint32_t count, const std::string& executor) {
  PlacementMeasured lease;
  lease.placement_id = first;
  lease.host = "here";
  lease.executor = executor;
  lease.executor_kind = "sim";
  lease.wall_s = 0.5;
  lease.resize(count, 2);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(first + i);
    lease.set(i, {.valid = true,
                  .step_time_s = value,
                  .peak_bytes = {0, 1},
                  .busy_s = {value, value + 1},
                  .bytes_moved = static_cast<std::int64_t>(first + i)});
  }
  return lease;
}

EpisodeMeasured started_episode(std::uint64_t first, std::uint32_t count) {
  PlacementProposed proposal;
  proposal.placement_id = first;
  proposal.count = count;
  proposal.num_devices = 2;
  return EpisodeMeasured::started(proposal);
}

TEST(EpisodeMeasured, MergesResultsOfLeasesInTheirPlaces) {
  EpisodeMeasured episode = started_episode(100, 4);
  EXPECT_FALSE(episode.consistent()) << "nothing is measured yet";
  episode.merge(lease(102, 2, "executor/1"), 2);
  episode.merge(lease(100, 2, "executor/0"), 2);
  EXPECT_TRUE(episode.consistent());
  EXPECT_EQ(episode.step_time_s, (std::vector<double>{100, 101, 102, 103}));
  EXPECT_EQ(episode.busy_s, (std::vector<double>{100, 101, 101, 102, 102, 103, 103, 104}));
  EXPECT_EQ(episode.executors, (std::vector<std::string>{"executor/1", "executor/0"}));
  EXPECT_EQ(episode.executor_of, (std::vector<std::uint16_t>{1, 1, 0, 0}));
  EXPECT_EQ(episode.attempt, (std::vector<std::uint32_t>{2, 2, 2, 2}));
  EXPECT_EQ(episode.wall_s, 1.0);
}

TEST(EpisodeMeasured, RefusesVectorsOfTheWrongLength) {
  PlacementMeasured good = lease(0, 3, "x");
  EXPECT_TRUE(good.consistent());
  PlacementMeasured bad = good;
  bad.busy_s.pop_back();
  EXPECT_FALSE(bad.consistent());
  bad = good;
  bad.count = 1u << 31;
  EXPECT_FALSE(bad.consistent());
  EpisodeMeasured episode = started_episode(0, 3);
  episode.merge(good, 1);
  episode.executor_of[1] = 1;
  EXPECT_FALSE(episode.consistent()) << "an executor that is not in the list";
}

}  // namespace
}  // namespace emplace::messages

// Goal: an episode is put together from its leases, each result in its place, and lengths are never taken on
// trust.
#include "messages/episode_measured.h"

#include <gtest/gtest.h>

namespace emplace::messages {
namespace {

PlacementMeasured lease(std::uint64_t first, std::uint32_t count, const std::string& executor) {
  PlacementMeasured m{.placement_id = first,
                      .count = count,
                      .host = "here",
                      .executor = executor,
                      .executor_kind = "sim",
                      .attempt = 2,
                      .num_devices = 2,
                      .wall_s = 0.5};
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(first + i);
    m.valid.push_back(1);
    m.step_time_s.push_back(value);
    m.bytes_over.push_back(0);
    m.bytes_moved.push_back(static_cast<std::int64_t>(first + i));
    for (int d = 0; d < 2; ++d) {
      m.peak_bytes.push_back(d);
      m.busy_s.push_back(value + d);
    }
  }
  return m;
}

TEST(EpisodeMeasured, PutsTheResultsOfItsLeasesInTheirPlaces) {
  EpisodeMeasured episode{.placement_id = 100, .count = 4, .num_devices = 2};
  episode.resize();
  EXPECT_FALSE(episode.consistent()) << "nobody has measured anything yet";
  episode.merge(lease(102, 2, "executor/1"));
  episode.merge(lease(100, 2, "executor/0"));
  EXPECT_TRUE(episode.consistent());
  EXPECT_EQ(episode.step_time_s, (std::vector<double>{100, 101, 102, 103}));
  EXPECT_EQ(episode.busy_s, (std::vector<double>{100, 101, 101, 102, 102, 103, 103, 104}));
  EXPECT_EQ(episode.executors, (std::vector<std::string>{"executor/1", "executor/0"}));
  EXPECT_EQ(episode.executor_of, (std::vector<std::uint16_t>{1, 1, 0, 0}));
  EXPECT_EQ(episode.attempt, (std::vector<std::uint32_t>{2, 2, 2, 2}));
  EXPECT_EQ(episode.wall_s, 1.0);
}

TEST(EpisodeMeasured, KnowsVectorsOfTheWrongLength) {
  PlacementMeasured good = lease(0, 3, "x");
  EXPECT_TRUE(good.consistent());
  PlacementMeasured bad = good;
  bad.busy_s.pop_back();
  EXPECT_FALSE(bad.consistent());
  bad = good;
  bad.count = 1u << 31;
  EXPECT_FALSE(bad.consistent());
  EpisodeMeasured episode{.placement_id = 0, .count = 3, .num_devices = 2};
  episode.resize();
  episode.merge(good);
  episode.executor_of[1] = 1;
  EXPECT_FALSE(episode.consistent()) << "an executor that is not in the list";
}

}  // namespace
}  // namespace emplace::messages

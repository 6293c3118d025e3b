// Goal: a finished episode is sent until the recorder has it, and is remembered for a while.
// Method: by hand, and random histories against a model.
#include "actors/dispatch/unrecorded_episodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace emplace::actors {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

FinishedEpisode finished_episode(std::uint64_t number) {
  FinishedEpisode finished;
  finished.reported.measured.episode = number;
  return finished;
}

std::vector<std::uint64_t> numbers_due(UnrecordedEpisodes& episodes, Nanos now) {
  std::vector<std::uint64_t> numbers;
  for (const FinishedEpisode* episode : episodes.due(now))
    numbers.push_back(episode->reported.measured.episode);
  return numbers;
}

TEST(UnrecordedEpisodes, AreDueOncePerTimeoutUntilRecorded) {
  UnrecordedEpisodes episodes{seconds{2}};
  episodes.add(finished_episode(7), seconds{1});
  episodes.add(finished_episode(3), seconds{2});
  EXPECT_THAT(numbers_due(episodes, seconds{2}), IsEmpty());
  EXPECT_THAT(numbers_due(episodes, seconds{3}), ElementsAre(7));
  EXPECT_THAT(numbers_due(episodes, seconds{4}), ElementsAre(3)) << "7 was sent a second ago";
  EXPECT_THAT(numbers_due(episodes, seconds{9}), ElementsAre(3, 7));
  episodes.recorded(std::vector<std::uint64_t>{3});
  EXPECT_FALSE(episodes.empty());
  EXPECT_THAT(numbers_due(episodes, seconds{20}), ElementsAre(7));
  episodes.recorded(std::vector<std::uint64_t>{7});
  EXPECT_TRUE(episodes.empty());
  EXPECT_THAT(numbers_due(episodes, seconds{30}), IsEmpty());
}

TEST(UnrecordedEpisodes, IgnoresAcknowledgementsOfWhatItNeverHad) {
  UnrecordedEpisodes episodes{seconds{1}};
  episodes.recorded(std::vector<std::uint64_t>{1, 2});
  EXPECT_FALSE(episodes.contains(1));
  episodes.add(finished_episode(2), seconds{0});
  EXPECT_TRUE(episodes.contains(2));
  EXPECT_FALSE(episodes.empty());
}

TEST(UnrecordedEpisodes, RemembersTheLastRecordedOnes) {
  UnrecordedEpisodes episodes{seconds{1}};
  constexpr std::uint64_t kMore = UnrecordedEpisodes::kRemembered + 10;
  for (std::uint64_t number = 0; number < kMore; ++number) {
    episodes.add(finished_episode(number), seconds{0});
    episodes.recorded(std::vector<std::uint64_t>{number, number});
  }
  for (std::uint64_t number = 0; number < kMore; ++number) EXPECT_EQ(episodes.contains(number), number >= 10);
  EXPECT_TRUE(episodes.empty());
}

TEST(UnrecordedEpisodes, LosesNoEpisodeInRandomHistories) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t bound) { return random() % bound; };
    UnrecordedEpisodes episodes{seconds{3}};
    std::map<std::uint64_t, Nanos> sent;  // Unrecorded episodes.
    std::set<std::uint64_t> on_disk;
    Nanos now{0};
    for (std::uint64_t step = 0; step < 300; ++step) {
      now += seconds{below(2)};
      if (below(2) == 0) {
        episodes.add(finished_episode(step), now);
        sent[step] = now;
      }
      if (below(3) == 0) {
        std::vector<std::uint64_t> recorded;
        for (std::uint64_t i = below(4); i > 0; --i) recorded.push_back(below(step + 1));
        episodes.recorded(recorded);
        for (const std::uint64_t number : recorded)
          if (sent.erase(number) > 0) on_disk.insert(number);
      }
      std::vector<std::uint64_t> due;
      for (auto& [number, last] : sent) {
        if (now - last < seconds{3}) continue;
        last = now;
        due.push_back(number);
      }
      ASSERT_EQ(numbers_due(episodes, now), due) << "seed " << seed;
      ASSERT_EQ(episodes.empty(), sent.empty());
      for (std::uint64_t number = 0; number <= step; ++number)
        ASSERT_EQ(episodes.contains(number), sent.contains(number) || on_disk.contains(number));
    }
  }
}

}  // namespace
}  // namespace emplace::actors

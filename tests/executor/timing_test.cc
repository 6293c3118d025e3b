// Goal: a step is timed as the protocol says. Method: steps with times from a list, counted.
#include "executor/timing.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

/// Hands out times, the last one for ever.
struct Steps {
  std::vector<double> times;
  std::size_t asked = 0;
  Result<double> operator()() { return times[std::min(asked++, times.size() - 1)]; }
};

TEST(TimingTest, WarmUpsDoNotCountAndTheMedianDoes) {
  Steps steps{{9, 9, 1, 1.02, 1.01}};
  const auto timing = time_steps({.warmups = 2, .samples = 3, .most_samples = 9}, std::ref(steps));
  ASSERT_TRUE(timing);
  EXPECT_EQ(timing->step_time_s, 1.01);
  EXPECT_EQ(timing->samples_s, (std::vector<double>{1, 1.02, 1.01}));
  EXPECT_FALSE(timing->unsteady);
  EXPECT_EQ(steps.asked, 5u);
}

TEST(TimingTest, TheMeanIfThePaperTookIt) {
  Steps steps{{1, 1, 1, 1.04}};
  const auto timing = time_steps(
      {.warmups = 0, .samples = 4, .most_samples = 4, .statistic = TimingOptions::Statistic::kMean},
      std::ref(steps));
  ASSERT_TRUE(timing);
  EXPECT_DOUBLE_EQ(timing->step_time_s, 1.01);
}

TEST(TimingTest, ASpreadAboveFivePercentAsksForMoreAndSaysIfThatDidNotHelp) {
  Steps calms{{1, 2, 1, 2, 1}};
  const auto calm = time_steps({.warmups = 0, .samples = 3, .most_samples = 15}, std::ref(calms));
  ASSERT_TRUE(calm);
  EXPECT_FALSE(calm->unsteady);
  EXPECT_EQ(calm->samples_s.size(), 3u);  // Of 1, 2, 1 the median deviation is zero.
  Steps wild{{1, 2, 3, 4, 5, 6, 7, 8}};
  const auto timing = time_steps({.warmups = 0, .samples = 3, .most_samples = 6}, std::ref(wild));
  ASSERT_TRUE(timing);
  EXPECT_EQ(timing->samples_s.size(), 6u);
  EXPECT_TRUE(timing->unsteady);
}

TEST(TimingTest, TheFirstErrorEndsIt) {
  int asked = 0;
  const auto timing = time_steps({.warmups = 1, .samples = 5, .most_samples = 5}, [&]() -> Result<double> {
    if (++asked == 3) return Error{Errc::kOutOfMemory, "full"};
    return 1.0;
  });
  ASSERT_FALSE(timing);
  EXPECT_EQ(timing.error().context, "full");
  EXPECT_EQ(asked, 3);
}

TEST(TimingTest, MediansOfEvenCountsLieBetween) {
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({7}), 7);
  const std::vector<double> values{1, 2, 4, 8, 100};
  EXPECT_EQ(median_deviation(values), 3);
}

}  // namespace
}  // namespace emplace

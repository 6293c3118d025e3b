// Goal: a step is timed according to the protocol. Method: steps with times from a list, counted.
#include "executor/timing.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

/// Returns times, and then the last one repeatedly.
struct Steps {
  std::vector<double> times;
  std::size_t taken = 0;
  Result<double> operator()() { return times[std::min(taken++, times.size() - 1)]; }
};

TEST(TimingTest, IgnoresWarmUpsAndTakesTheMedian) {
  Steps steps{{9, 9, 1, 1.02, 1.01}};
  const auto timing = time_steps({.warmups = 2, .samples = 3, .most_samples = 9}, std::ref(steps));
  ASSERT_TRUE(timing);
  EXPECT_EQ(timing->step_time_s, 1.01);
  EXPECT_EQ(timing->samples_s, (std::vector<double>{1, 1.02, 1.01}));
  EXPECT_FALSE(timing->unsteady);
  EXPECT_EQ(steps.taken, 5u);
}

TEST(TimingTest, TakesTheMeanOnRequest) {
  Steps steps{{1, 1, 1, 1.04}};
  const auto timing = time_steps(
      {.warmups = 0, .samples = 4, .most_samples = 4, .statistic = TimingOptions::Statistic::kMean},
      std::ref(steps));
  ASSERT_TRUE(timing);
  EXPECT_DOUBLE_EQ(timing->step_time_s, 1.01);
}

TEST(TimingTest, SpreadAboveFivePercentTakesMoreSamplesAndIsReported) {
  Steps calms{{1, 2, 1, 2, 1}};
  const auto calm = time_steps({.warmups = 0, .samples = 3, .most_samples = 15}, std::ref(calms));
  ASSERT_TRUE(calm);
  EXPECT_FALSE(calm->unsteady);
  // The median deviation of 1, 2, 1 is zero.
  EXPECT_EQ(calm->samples_s.size(), 3u);
  Steps wild{{1, 2, 3, 4, 5, 6, 7, 8}};
  const auto timing = time_steps({.warmups = 0, .samples = 3, .most_samples = 6}, std::ref(wild));
  ASSERT_TRUE(timing);
  EXPECT_EQ(timing->samples_s.size(), 6u);
  EXPECT_TRUE(timing->unsteady);
}

TEST(TimingTest, MuchSlowerPlacementGetsTwoSteps) {
  constexpr TimingOptions kStop{.warmups = 2, .samples = 3, .most_samples = 9, .stop_ratio = 2};
  const auto timed = [&](TimingOptions options, std::vector<double> times, double best_s, std::size_t taken) {
    Steps steps{std::move(times)};
    const auto timing = time_steps(options, std::ref(steps), best_s);
    EXPECT_EQ(steps.taken, taken);
    return timing.value();
  };
  const StepTiming slow = timed(kStop, {9, 2.5, 1}, 1.25, 2);
  EXPECT_TRUE(slow.stopped);
  EXPECT_EQ(slow.step_time_s, 2.5);
  EXPECT_EQ(slow.samples_s, std::vector<double>{2.5});
  EXPECT_FALSE(slow.unsteady);
  EXPECT_FALSE(timed(kStop, {9, 2.4, 2.4}, 1.25, 5).stopped) << "a cold first step is no evidence";
  EXPECT_FALSE(timed(kStop, {2.4, 9, 2.4}, 1.25, 5).stopped) << "nor is one disturbed step";
  EXPECT_FALSE(timed(kStop, {1, 1, 9}, 1.25, 5).stopped) << "later steps do not stop it";
  TimingOptions never = kStop;
  never.stop_ratio = 0;
  EXPECT_FALSE(timed(never, {9, 9, 9}, 1.25, 5).stopped);
  TimingOptions cold = kStop;
  cold.warmups = 0;
  EXPECT_EQ(timed(cold, {9, 8, 1}, 1.25, 2).samples_s, std::vector<double>{8});
  cold.warmups = 1;
  EXPECT_EQ(timed(cold, {9, 8, 1}, 1.25, 2).samples_s, std::vector<double>{8});
  cold.samples = 1;
  cold.warmups = 0;
  EXPECT_EQ(timed(cold, {9, 8}, 1.25, 1).samples_s, std::vector<double>{9}) << "one step was requested";
}

TEST(TimingTest, BestStepIsThatOfThePlacementsSoFar) {
  StepTimer timer{{.warmups = 1, .samples = 2, .most_samples = 2, .stop_ratio = 3}};
  const auto samples = [&](double seconds) {
    return timer.time([&]() -> Result<double> { return seconds; }).value().samples_s.size();
  };
  EXPECT_EQ(samples(8), 2u) << "there is no earlier placement";
  EXPECT_EQ(samples(23), 2u);
  EXPECT_EQ(samples(24), 1u);
  EXPECT_EQ(samples(4), 2u);
  EXPECT_EQ(samples(12), 1u);
}

TEST(TimingTest, FirstErrorEndsIt) {
  int taken = 0;
  const auto timing = time_steps({.warmups = 1, .samples = 5, .most_samples = 5}, [&]() -> Result<double> {
    if (++taken == 3) return Error{Errc::kOutOfMemory, "full"};
    return 1.0;
  });
  ASSERT_FALSE(timing);
  EXPECT_EQ(timing.error().context, "full");
  EXPECT_EQ(taken, 3);
}

TEST(TimingTest, MedianOfAnEvenCountIsBetweenTheMiddleTwo) {
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({7}), 7);
  const std::vector<double> values{1, 2, 4, 8, 100};
  EXPECT_EQ(median_deviation(values), 3);
}

}  // namespace
}  // namespace emplace

// Goal: Adam, clipping, schedules and rewards match the published formulas.  Method: numbers computed by
// hand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/rng.h"
#include "placement/energy.h"
#include "policy/loss/reward.h"
#include "policy/optim/adam.h"

namespace emplace::policy {
namespace {

TEST(Adam, FirstStepMovesByTheLearningRateAgainstTheSign) {
  ParameterStore store;
  store.add("w", 2, 1, Init::kZero, 1);
  store.gradients()[0] = 0.3f;
  store.gradients()[1] = -0.4f;
  Adam adam;
  EXPECT_NEAR(adam.step(store, 0.01f), 0.5f, 1e-6f);
  EXPECT_NEAR(store.values()[0], -0.01f, 1e-6f);
  EXPECT_NEAR(store.values()[1], 0.01f, 1e-6f);
}

TEST(Adam, SecondStepFollowsTheMoments) {
  ParameterStore store;
  store.add("w", 1, 1, Init::kZero, 1);
  Adam adam{{.clip_norm = 0}};
  store.gradients()[0] = 1;
  adam.step(store, 0.1f);
  store.gradients()[0] = 3;
  adam.step(store, 0.1f);
  const double m = (0.9 * 0.1 * 1 + 0.1 * 3) / (1 - 0.81),
               v = (0.999 * 0.001 * 1 + 0.001 * 9) / (1 - 0.999 * 0.999);
  EXPECT_NEAR(store.values()[0], -0.1 - 0.1 * m / std::sqrt(v), 1e-5);
}

TEST(Adam, ClipsByTheGlobalNormAndLeavesSmallGradientsAlone) {
  ParameterStore big, small;
  big.add("w", 2, 1, Init::kZero, 1);
  small.add("w", 2, 1, Init::kZero, 1);
  big.gradients()[0] = 30;
  big.gradients()[1] = 40;
  small.gradients()[0] = 0.6f;
  small.gradients()[1] = 0.8f;
  Adam a, b;
  EXPECT_NEAR(a.step(big, 0.1f), 50, 1e-4);
  b.step(small, 0.1f);
  const Bytes state_a = a.save(), state_b = b.save();
  EXPECT_EQ(state_a.size(), state_b.size());
  ParameterStore restored;
  restored.add("w", 2, 1, Init::kZero, 1);
  EXPECT_NEAR(big.values()[0], small.values()[0], 1e-6f) << "30/50 and 0.6 are the same direction and length";
}

TEST(Adam, MomentsAreNeverDenormal) {
  ParameterStore store;
  store.add("w", 1, 1, Init::kZero, 1);
  store.gradients()[0] = 1;
  Adam adam;
  adam.step(store, 0.1f);
  store.gradients()[0] = 0;
  for (int i = 0; i < 500; ++i) adam.step(store, 0.1f);
  const float settled = store.values()[0];
  for (int i = 0; i < 2'000; ++i) adam.step(store, 0.1f);
  EXPECT_EQ(store.values()[0], settled);
  float mean = 1;
  std::memcpy(&mean, adam.save().data() + sizeof(std::uint64_t), sizeof mean);
  EXPECT_NE(std::fpclassify(mean), FP_SUBNORMAL) << "as 0.9 to the power of 900 is";
  volatile float small = 1e-39f;
  EXPECT_GT(small * 0.5f, 0) << "other arithmetic has its denormal numbers";
}

TEST(Adam, NonFiniteGradientChangesNothing) {
  ParameterStore store;
  store.add("w", 1, 1, Init::kZero, 1);
  store.gradients()[0] = std::numeric_limits<float>::quiet_NaN();
  Adam adam;
  EXPECT_TRUE(std::isnan(adam.step(store, 0.1f)));
  EXPECT_EQ(store.values()[0], 0.0f);
  EXPECT_EQ(adam.updates(), 0u);
}

TEST(Adam, ContinuesFromItsSavedState) {
  ParameterStore one, two;
  one.add("w", 3, 1, Init::kGlorot, 1);
  two.add("w", 3, 1, Init::kGlorot, 1);
  Adam a, b;
  for (int i = 0; i < 3; ++i) {
    one.gradients()[0] = 0.1f * static_cast<float>(i);
    a.step(one, 0.1f);
  }
  ASSERT_TRUE(two.load(one.bytes()).ok());
  ASSERT_TRUE(b.load(a.save(), two.size()).ok());
  one.gradients()[1] = two.gradients()[1] = 0.5f;
  one.gradients()[0] = two.gradients()[0] = 0.0f;
  a.step(one, 0.1f);
  b.step(two, 0.1f);
  EXPECT_EQ(one.sha256(), two.sha256());
  EXPECT_FALSE(b.load(Bytes(5), two.size()).ok());
}

TEST(Reward, ExcessIsTheSumOrThatOfTheWorstDevice) {
  const std::vector<std::int64_t> peaks{90, 130, 170}, memory{100, 100, 100};
  EXPECT_EQ(counted_excess(Excess::kSum, 100, peaks, memory), 100);
  EXPECT_EQ(counted_excess(Excess::kMax, 100, peaks, memory), 70);
  EXPECT_EQ(counted_excess(Excess::kMax, 0, {}, memory), 0);
  EXPECT_EQ(counted_excess(Excess::kMax, 5, {}, memory), 5) << "no peaks are known";
  EXPECT_EQ(counted_excess(Excess::kMax, 5, std::vector<std::int64_t>{0, 0, 0}, memory), 5);
  EXPECT_EQ(counted_excess(Excess::kMax, 30, peaks, memory), 30) << "a device without weight";
}

TEST(Sgd, StepsAgainstTheGradientByTheRate) {
  ParameterStore store;
  store.add("w", 2, 1, Init::kZero, 1);
  store.add("slow", 1, 1, Init::kZero, 1, 0.5f);
  for (int step = 1; step <= 2; ++step) {
    store.gradients()[0] = 3;
    store.gradients()[1] = -4;
    store.gradients()[2] = 12;
    EXPECT_NEAR(sgd_step(store, 0.1f, 0), 13, 1e-6f);
    EXPECT_NEAR(store.values()[0], -0.3f * static_cast<float>(step), 1e-6f)
        << "no state: each step is the same";
    EXPECT_NEAR(store.values()[1], 0.4f * static_cast<float>(step), 1e-6f);
    EXPECT_NEAR(store.values()[2], -0.6f * static_cast<float>(step), 1e-6f);
  }
  const float before = store.values()[0];
  EXPECT_NEAR(sgd_step(store, 0.1f, 1), 13, 1e-6f);
  EXPECT_NEAR(store.values()[0], before - 0.3f / 13, 1e-6f) << "cut to the norm 1";
  const std::vector<float> kept(store.values().begin(), store.values().end());
  store.gradients()[1] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(sgd_step(store, 0.1f, 1)));
  EXPECT_EQ(std::vector<float>(store.values().begin(), store.values().end()), kept);
}

TEST(Adam, LearningScalesAreRelative) {
  ParameterStore store;
  store.add("slow", 1, 1, Init::kZero, 1, 0.5f);
  store.add("fast", 1, 1, Init::kZero, 1, 2.0f);
  store.gradients()[0] = store.gradients()[1] = 0.1f;
  Adam adam;
  adam.step(store, 0.01f);
  EXPECT_NEAR(store.values()[1] / store.values()[0], 4.0f, 1e-3f);
}

TEST(LearningRate, DecaysAtIntervalsFromAStepOn) {
  const LearningRate rate{0.1f, 0.95f, 50, 400};
  EXPECT_FLOAT_EQ(rate.at(399), 0.1f);
  EXPECT_FLOAT_EQ(rate.at(400), 0.095f);
  EXPECT_FLOAT_EQ(rate.at(449), 0.095f);
  EXPECT_NEAR(rate.at(450), 0.1 * 0.95 * 0.95, 1e-7);
  EXPECT_FLOAT_EQ(LearningRate{0.1f}.at(100'000), 0.1f);
}

TEST(LearningRate, FallsLinearlyToItsEndAndStays) {
  const LearningRate rate{.start = 1e-3f, .linear_over = 100, .end = 1e-4f};
  EXPECT_FLOAT_EQ(rate.at(0), 1e-3f);
  EXPECT_FLOAT_EQ(rate.at(50), 5.5e-4f);
  EXPECT_FLOAT_EQ(rate.at(1000), 1e-4f);
}

TEST(Reward, FailedPlacementsCostTheFailingSignalWhateverThePenalty) {
  for (const Transform transform : {Transform::kIdentity, Transform::kSqrt, Transform::kLog}) {
    const RewardOptions graded{transform, 5, true, 0.2, 0.5};
    EXPECT_DOUBLE_EQ(placement_cost(graded, false, 0, 0), 5) << "crashed: no time, and no byte above";
    EXPECT_DOUBLE_EQ(placement_cost(graded, false, 0, 64), 5) << "out of memory on a real device";
    EXPECT_LT(placement_cost(graded, false, 1, 64), 5) << "simulated";
  }
}

TEST(Reward, TransformsAndPenalties) {
  RewardOptions paper;
  EXPECT_DOUBLE_EQ(placement_cost(paper, true, 4.0, 0), 2.0);
  EXPECT_DOUBLE_EQ(placement_cost(paper, false, 4.0, 1), 10.0);
  RewardOptions graded{Transform::kLog, 5, true, 0.2, 0.5};
  EXPECT_DOUBLE_EQ(placement_cost(graded, false, 1.0, 2'000'000'000), 0.2 + 0.5 * 2);
  EXPECT_DOUBLE_EQ(placement_cost(graded, false, 1.0, 100'000'000'000), 5.0)
      << "never worse than the failing signal";
  EXPECT_DOUBLE_EQ(placement_cost({Transform::kIdentity}, true, 0.7, 0), 0.7);
  EXPECT_FALSE(parse_word<Transform>("cube").ok());
}

TEST(Reward, InfeasiblePlacementsNeverBeatTheFloor) {
  const RewardOptions graded{Transform::kIdentity, 5, true, 0.2, 0.5};
  const MemoryPrice floor{.floor = 1.0};
  EXPECT_DOUBLE_EQ(placement_cost(graded, false, 0.1, 2'000'000'000, floor), 1.0 + 0.2 + 1.0);
  EXPECT_DOUBLE_EQ(placement_cost(graded, false, 0.1, 2'000'000'000, floor),
                   placement_cost(graded, false, 0.9, 2'000'000'000, floor))
      << "how fast it would have been counts for nothing";
  EXPECT_DOUBLE_EQ(placement_cost(graded, false, 3.0, 0, floor), 3.2)
      << "what is slower than the floor costs its time";
  EXPECT_DOUBLE_EQ(placement_cost(graded, true, 0.1, 0, floor), 0.1) << "what fits is worth what it is";
  EXPECT_DOUBLE_EQ(placement_cost(graded, false, 0.1, 2'000'000'000, {.floor = 4.5}), 5)
      << "never above the failing signal";
}

// As in searches: 0.05, and twice the excess as a share of the smallest memory.
TEST(Reward, PenaltyByShareIsThatOfSearches) {
  RewardOptions graded{Transform::kLog, 5, true, 0.2, 0.5};
  graded.penalty = MemoryPenalty::kShare;
  const MemoryPrice price{.more_per_gb = 3, .smallest_memory = 8'000'000'000};
  EXPECT_DOUBLE_EQ(placement_cost(graded, false, 1.0, 2'000'000'000, price), 0.05 + 2 * 0.25);
  EXPECT_DOUBLE_EQ(placement_cost(graded, false, 2.0, 2'000'000'000, price),
                   std::log(2.0) + memory_penalty(2'000'000'000, 8'000'000'000));
  EXPECT_DOUBLE_EQ(placement_cost(graded, false, 1.0, 2'000'000'000, {0, 8'000'000'000, 3.0, 1.5}),
                   1.5 + 3 * (0.05 + 2 * 0.25))
      << "adapted, above the floor";
  EXPECT_NEAR(placement_cost(graded, false, 1.0, 0, price), 0.05, 1e-9) << "invalid, but not for memory";
  EXPECT_DOUBLE_EQ(placement_cost(graded, false, 1.0, 80'000'000'000, price), 5) << "the failing signal";
  EXPECT_DOUBLE_EQ(placement_cost(graded, true, 1.0, 0, price), 0) << "what fits costs its time";
}

TEST(MemoryFloor, IsTheBestFeasibleOrElseTheWorstInfeasible) {
  MemoryFloor floor;
  EXPECT_EQ(floor.cost(), kNoFloor);
  floor.learn(false, -0.5);
  floor.learn(false, 0.25);
  floor.learn(false, 0.0);
  EXPECT_EQ(floor.cost(), 0.25);
  floor.learn(true, 1.5);
  EXPECT_EQ(floor.cost(), 1.5) << "slower than all that do not fit, and still the mark";
  floor.learn(true, 1.0);
  floor.learn(true, 2.0);
  floor.learn(false, 7.0);
  EXPECT_EQ(floor.cost(), 1.0);
}

TEST(AdaptivePenalty, GrowsWhileTooFewFitAndFallsWhileMoreDo) {
  AdaptivePenalty penalty{0.6};
  EXPECT_EQ(penalty.factor(), 1);
  penalty.learn(false);
  EXPECT_DOUBLE_EQ(penalty.factor(), std::exp(0.01 * 0.6));
  penalty.learn(true);
  EXPECT_DOUBLE_EQ(penalty.factor(), std::exp(0.01 * (0.6 - 0.4)));
  // At the target it stays.
  AdaptivePenalty even{0.5};
  for (int i = 0; i < 1000; ++i) even.learn(i % 2 == 0);
  EXPECT_NEAR(even.factor(), 1, 1e-9);
  for (int i = 0; i < 100'000; ++i) penalty.learn(false);
  EXPECT_EQ(penalty.factor(), AdaptivePenalty::kMax);
  for (int i = 0; i < 100'000; ++i) penalty.learn(true);
  EXPECT_EQ(penalty.factor(), 1 / AdaptivePenalty::kMax);
  const RewardOptions graded{Transform::kLog, 100, true, 0.2, 0.5};
  const double per_gb = 0.5 / AdaptivePenalty::kMax, base = 0.2 / AdaptivePenalty::kMax;
  EXPECT_DOUBLE_EQ(placement_cost(graded, false, 1.0, 2'000'000'000, {.factor = penalty.factor()}),
                   base + 2 * per_gb);
  EXPECT_DOUBLE_EQ(placement_cost(graded, true, 2.0, 0, {.factor = penalty.factor()}), std::log(2.0))
      << "what fits costs its time";
}

// Dual ascent: a policy of one choice, between a fast placement above the cap and a slow one that fits, which
// follows the softmax of the costs, ends at the target.
TEST(AdaptivePenalty, ReachesItsTargetWhateverInfeasibilitySaves) {
  for (const double slower : {2.0, 10.0}) {
    Rng rng{1, Purpose::kTest};
    AdaptivePenalty penalty{0.6};
    const RewardOptions graded{Transform::kLog, 100, true, 0.2, 0.5};
    int fitted = 0;
    for (int i = 0; i < 20'000; ++i) {
      const double fast = placement_cost(graded, false, 1.0, 100'000'000, {.factor = penalty.factor()});
      const double slow = placement_cost(graded, true, slower, 0, {.factor = penalty.factor()});
      const bool fits = rng.uniform_double() < 1 / (1 + std::exp(slow - fast));
      penalty.learn(fits);
      if (i >= 10'000) fitted += fits ? 1 : 0;
    }
    EXPECT_NEAR(fitted / 10'000.0, 0.6, 0.05) << slower;
  }
}

}  // namespace
}  // namespace emplace::policy

// Goal: each baseline and its returns match their paper.  Method: short histories by hand, numbers exact in
// binary.
#include "policy/loss/baseline.h"

#include <gtest/gtest.h>

#include "policy/loss/outlier.h"

namespace emplace::policy {
namespace {

using Costs = std::vector<double>;

Costs advantages(Baseline& baseline, const Costs& cost) {
  return baseline.advantages(cost, std::vector<std::uint8_t>(cost.size(), 1));
}

// R > median + k · MAD, strictly, over the last 100 costs.
TEST(OutlierFilter, MatchesTheEquation) {
  OutlierFilter filter{4};
  for (int i = 0; i < 19; ++i) filter.learn(i % 2 == 0 ? 1 : 3);
  EXPECT_FALSE(filter.is_outlier(1e9)) << "too few are known";
  filter.learn(3);  // Ten of each: median 2, MAD 1.
  EXPECT_FALSE(filter.is_outlier(6));
  EXPECT_TRUE(filter.is_outlier(6.001));
  EXPECT_FALSE(filter.is_outlier(-1e9)) << "faster than usual is what we look for";
  for (int i = 0; i < 100; ++i) filter.learn(50 + i % 5);  // 50 … 54: median 52, MAD 1.
  EXPECT_FALSE(filter.is_outlier(56)) << "the machine has become slower";
  EXPECT_TRUE(filter.is_outlier(57));
  for (int i = 0; i < 51; ++i) filter.learn(7);
  EXPECT_FALSE(filter.is_outlier(100)) << "no outlier if most costs are equal";
  OutlierFilter off{0};
  for (int i = 0; i < 100; ++i) off.learn(i % 7);
  EXPECT_FALSE(off.is_outlier(1e9));
}

TEST(Baseline, MeanOfAllEarlierTrials) {
  Baseline baseline{{.kind = BaselineKind::kMean}};
  EXPECT_EQ(advantages(baseline, {4, 8}), (Costs{-2, 2})) << "nothing earlier: their own mean";
  EXPECT_EQ(advantages(baseline, {3}), (Costs{-3})) << "against (4 + 8) / 2";
  EXPECT_EQ(advantages(baseline, {5}), (Costs{0})) << "against (4 + 8 + 3) / 3";
}

TEST(Baseline, MeanIgnoresTrialsThatDoNotCount) {
  Baseline baseline{{.kind = BaselineKind::kMean}};
  advantages(baseline, {4});
  const std::vector<std::uint8_t> none{0};
  EXPECT_EQ(baseline.advantages(Costs{100}, none), (Costs{0}));
  EXPECT_EQ(advantages(baseline, {6}), (Costs{2}));
}

TEST(Baseline, MovingAverageStartsAtTheFailingSignal) {
  Baseline baseline{{.decay = 0.75, .failing_signal = 8, .start_at_failing_signal = true}};
  EXPECT_EQ(advantages(baseline, {4}), (Costs{-4}));
  EXPECT_EQ(advantages(baseline, {4}), (Costs{-3}));
  EXPECT_EQ(baseline.used(), 7);
}

TEST(Baseline, StepMeanComparesEqualStepsOfTheLastEpisodes) {
  Baseline baseline{{.kind = BaselineKind::kStepMean, .returns = Returns::kFinal, .window = 2}};
  EXPECT_EQ(advantages(baseline, {9, 9, 4}), (Costs{0, 0, 0})) << "nothing to compare with";
  EXPECT_EQ(advantages(baseline, {9, 9, 2}), (Costs{-2, -2, -2}));
  EXPECT_EQ(advantages(baseline, {9, 9, 3}), (Costs{0, 0, 0}));
  EXPECT_EQ(advantages(baseline, {9, 9, 3}), (Costs{0.5, 0.5, 0.5})) << "the first episode is forgotten";
}

TEST(Baseline, IntermediateRewardsTelescope) {
  EXPECT_EQ(answers_of(Costs{5, 3, 4}, Returns::kIntermediate, 1), (Costs{4, -1, 1}));
  EXPECT_EQ(answers_of(Costs{5, 3, 4}, Returns::kIntermediate, 0.5), (Costs{5 - 0.75, -1.5, 1}));
  EXPECT_EQ(answers_of(Costs{5, 3, 4}, Returns::kFinal, 0.5), (Costs{1, 2, 4}));
  EXPECT_EQ(answers_of(Costs{5, 3, 4}, Returns::kPlacement, 0.5), (Costs{5, 3, 4}));
}

// ρ(s_0) = 7: the first step is credited with what it changed, and the rewards add up to ρ(s_0) − ρ(s_T).
TEST(Baseline, FirstRewardIsRelativeToAMeasuredStart) {
  EXPECT_EQ(answers_of(Costs{5, 3, 4}, Returns::kIntermediate, 1, 7), (Costs{-3, -1, 1}));
  EXPECT_EQ(answers_of(Costs{5, 3, 4}, Returns::kFinal, 1, 7), (Costs{4, 4, 4})) << "the end alone";
  Baseline baseline{
      {.kind = BaselineKind::kStepMean, .returns = Returns::kIntermediate, .start_measured = true}};
  EXPECT_EQ(advantages(baseline, {7, 5, 3, 4}), (Costs{0, 0, 0}));
  EXPECT_EQ(advantages(baseline, {9, 5, 3, 4}), (Costs{-2, 0, 0}))
      << "a worse start: its first step gained more";
  // Without a measured start the same two episodes have no difference.
  Baseline blind{{.kind = BaselineKind::kStepMean, .returns = Returns::kIntermediate}};
  EXPECT_EQ(advantages(blind, {5, 3, 4}), (Costs{0, 0, 0}));
  EXPECT_EQ(advantages(blind, {5, 3, 4}), (Costs{0, 0, 0}));
  const std::vector<std::uint8_t> counted{0, 1, 0, 1};
  EXPECT_EQ(baseline.advantages(Costs{9, 5, 3, 6}, counted), (Costs{1, 0, 2})) << "counted step by step";
}

TEST(Baseline, SelfCriticWithoutDrawsHasNoAdvantages) {
  Baseline baseline{{.kind = BaselineKind::kSelfCritic}};
  EXPECT_TRUE(baseline.advantages(std::vector{2.0}, std::vector<std::uint8_t>{1}).empty());
}

TEST(Baseline, SelfCriticComparesDrawsWithTheLikeliest) {
  Baseline baseline{{.kind = BaselineKind::kSelfCritic}};
  EXPECT_EQ(advantages(baseline, {5, 3, 4}), (Costs{1, -1})) << "the last placement is the likeliest";
  EXPECT_EQ(baseline.used(), 4);
}

TEST(Baseline, NormalisedAdvantagesDoNotDependOnTheUnit) {
  for (const BaselineKind kind :
       {BaselineKind::kMovingAverage, BaselineKind::kMean, BaselineKind::kStepMean}) {
    Baseline seconds{{.kind = kind, .normalise = true}}, thousands{{.kind = kind, .normalise = true}};
    for (int episode = 0; episode < 20; ++episode) {
      Costs cost, scaled;
      for (int i = 0; i < 4; ++i) {
        cost.push_back(10 + (episode * 7 + i * 5) % 11);
        scaled.push_back(1000 * cost.back());
      }
      const Costs a = advantages(seconds, cost), b = advantages(thousands, scaled);
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4) << word_of(kind);
    }
  }
}

TEST(Baseline, NamesRoundTrip) {
  for (const char* name : {"moving-average", "mean", "step-mean", "self-critic"})
    EXPECT_EQ(word_of(*parse_word<BaselineKind>(name)), name);
  EXPECT_FALSE(parse_word<BaselineKind>("average").ok());
}

}  // namespace
}  // namespace emplace::policy

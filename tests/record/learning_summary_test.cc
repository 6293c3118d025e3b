// Goal: a policy that no longer learns is found after exactly 50 updates, its warning names where, what and
// the cure, and the entropy is that of each tenth of the updates. Method: made-up updates, and a real record.
#include "record/learning_summary.h"

#include <gtest/gtest.h>

#include <limits>

#include "record/run_reader.h"
#include "record/run_writer.h"
#include "tests/support/scratch_folder.h"

namespace emplace::record {
namespace {

constexpr std::uint64_t kWatched = SaturationWatch::kUpdates;

/// Updates as a policy makes them, one after the other.
class Updates {
 public:
  /// Adds `count` updates with this gradient. Returns how often the watch reported.
  int add(std::uint64_t count, double gradient_norm, double entropy = 0, double learning_rate = 0.1) {
    int reported = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      samples_.push_back({samples_.size() + 1, entropy, gradient_norm, learning_rate});
      reported += watch_.add(samples_.back()) ? 1 : 0;
    }
    return reported;
  }
  const std::optional<Saturation>& found() const { return watch_.found(); }
  LearningSummary summary() const { return summarise_learning(samples_, "lower policy.learning_rate"); }

 private:
  std::vector<PolicySample> samples_;
  SaturationWatch watch_;
};

TEST(SaturationWatch, TakesFiftyUpdatesInSequence) {
  Updates updates;
  EXPECT_EQ(updates.add(30, 2.5), 0);
  EXPECT_EQ(updates.add(kWatched - 1, 0), 0) << "49 are too few";
  EXPECT_FALSE(updates.found());
  EXPECT_EQ(updates.add(1, 0), 1);
  ASSERT_TRUE(updates.found());
  EXPECT_EQ(updates.found()->first, 31u);
  EXPECT_EQ(updates.found()->last, 80u);
}

TEST(SaturationWatch, StartsAgainAfterAnyOtherGradient) {
  for (const double other : {1e-9, std::numeric_limits<double>::quiet_NaN()}) {
    Updates updates;
    updates.add(kWatched - 1, 0);
    updates.add(1, other);
    EXPECT_EQ(updates.add(kWatched - 1, 0), 0);
    EXPECT_FALSE(updates.found());
    EXPECT_EQ(updates.add(1, 0), 1);
    EXPECT_EQ(updates.found()->first, kWatched + 1);
  }
}

TEST(SaturationWatch, ReportsOnceAndKeepsTheFirstSequence) {
  Updates updates;
  EXPECT_EQ(updates.add(70, 0), 1);
  EXPECT_EQ(updates.found()->last, 70u) << "it grows";
  updates.add(1, 1);
  EXPECT_EQ(updates.add(200, 0), 0) << "once in a run";
  EXPECT_EQ(updates.found()->first, 1u);
  EXPECT_EQ(updates.found()->last, 70u) << "later ones are others";
}

// ColocRL's gradient, with its paper's settings, ends at 2.5e-29.
TEST(SaturationWatch, TakesAVanishingGradientForNone) {
  Updates updates;
  EXPECT_EQ(updates.add(kWatched, 2.5e-29), 1);
  Updates small;
  EXPECT_EQ(small.add(500, 1e-10), 0) << "Adam still moves by a hundredth of its rate";
}

// A learner in Python may report nothing but its parameters.
TEST(SaturationWatch, IgnoresLearnersThatReportNothing) {
  Updates updates;
  EXPECT_EQ(updates.add(500, 0, 0, 0), 0);
  EXPECT_FALSE(updates.found());
}

TEST(LearningSummary, HasTheEntropyOfEachTenth) {
  Updates updates;
  EXPECT_TRUE(updates.summary().entropy.empty());
  EXPECT_EQ(updates.summary().updates, 0u);
  updates.add(1, 1, 0.5);
  updates.add(2, 1, 0.25);
  EXPECT_EQ(updates.summary().entropy, (std::vector<double>{0.5, 0.25, 0.25})) << "as many as there are";
  updates.add(22, 1, 0.25);
  const LearningSummary summary = updates.summary();
  EXPECT_EQ(summary.updates, 25u);
  ASSERT_EQ(summary.entropy.size(), 10u);
  EXPECT_DOUBLE_EQ(summary.entropy[0], 0.375) << "updates 1 and 2 of 25";
  for (std::size_t part = 1; part < 10; ++part) EXPECT_DOUBLE_EQ(summary.entropy[part], 0.25) << part;
  EXPECT_FALSE(summary.saturation);
  EXPECT_EQ(summary.warning, "");
}

TEST(LearningSummary, CountsEveryUpdateInOneTenth) {
  for (const std::uint64_t count : {10, 11, 19, 99, 1'234}) {
    Updates updates;
    for (std::uint64_t i = 0; i < count; ++i) updates.add(1, 1, static_cast<double>(i));
    const std::vector<double> entropy = updates.summary().entropy;
    ASSERT_EQ(entropy.size(), 10u);
    double sum = 0;
    for (std::size_t part = 0; part < 10; ++part)
      sum += entropy[part] * static_cast<double>((part + 1) * count / 10 - part * count / 10);
    EXPECT_NEAR(sum, static_cast<double>(count * (count - 1)) / 2, 1e-6 * sum) << count;
  }
}

TEST(LearningSummary, WarnsInOneLine) {
  Updates updates;
  updates.add(1'000, 3, 0.69);
  updates.add(kWatched, 0, 0);
  EXPECT_EQ(updates.summary().warning,
            "the policy is saturated: the gradient was below 1e-10 in updates 1,001 to 1,050, so it learns "
            "nothing more; lower policy.learning_rate");
  updates.add(1, 3, 0.1);
  EXPECT_EQ(updates.summary().warning,
            "the policy is saturated: the gradient was below 1e-10 in updates 1,001 to 1,050, so it learned "
            "nothing in them; lower policy.learning_rate");
}

TEST(LearningSummary, DoesNotCallAnUncertainPolicySaturated) {
  Updates updates;
  updates.add(kWatched, 0, 0.6931);
  EXPECT_EQ(
      updates.summary().warning,
      "the policy does not learn: the gradient was below 1e-10 in updates 1 to 50 at an entropy of 0.69 nat "
      "per choice, so its logits are at their bound or all its placements have the same reward; lower "
      "policy.learning_rate");
}

TEST(LearningSummary, WritesZeroUnlikeAlmostZero) {
  EXPECT_EQ(entropy_text(std::vector<double>{0.6931, 0.5, 0.0049, 1e-9, 0}), "0.69 0.50 0.00 0.00 0");
  EXPECT_EQ(entropy_text({}), "");
}

TEST(LearningSummary, IsReadFromTheRecord) {
  const testing::ScratchFolder folder{"learning_summary"};
  const std::filesystem::path directory = folder.path() / "run";
  auto writer = RunWriter::create(directory, {});
  ASSERT_TRUE(writer.ok()) << writer.error().context;
  for (std::uint64_t update = 1; update <= 60; ++update) {
    UpdateRow row;
    row.update = row.policy_version = update;
    row.entropy = update <= 10 ? 0.5 : 0;
    row.gradient_norm = update <= 10 ? 7 : 0;
    row.learning_rate = 0.1;
    row.advantages = {1, 2, 3};
    ASSERT_TRUE((*writer)->add_update(row).ok());
  }
  ASSERT_TRUE((*writer)->commit().ok());
  const auto samples = (*writer)->results().policy_samples();
  ASSERT_TRUE(samples.ok()) << samples.error().context;
  ASSERT_EQ(samples->size(), 60u);
  EXPECT_EQ(samples->front().update, 1u);
  EXPECT_EQ(samples->front().gradient_norm, 7);
  const LearningSummary summary = summarise_learning(*samples, "");
  ASSERT_TRUE(summary.saturation);
  EXPECT_EQ(summary.saturation->first, 11u);
  EXPECT_DOUBLE_EQ(summary.entropy[1], 4.0 / 6 * 0.5) << "updates 7 to 12";
}

}  // namespace
}  // namespace emplace::record

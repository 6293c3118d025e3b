// Goal: a curve of any number of measurements shows percentiles of the valid ones, the best so far, and how
// many fitted; never more points than requested.
#include "record/report/learning_curve.h"

#include <gtest/gtest.h>

namespace emplace::record {
namespace {

TEST(LearningCurve, FewMeasurementsHaveOnePointEach) {
  const std::vector<CurveSample> samples{{true, 0.5, 1}, {false, 9, 2}, {true, 0.25, 3}, {true, 1, 4}};
  const auto points = learning_curve(samples, 400);
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[1].valid, 0u);
  EXPECT_EQ(points[1].step_time_s[2], 0) << "nothing fitted";
  EXPECT_DOUBLE_EQ(points[1].best_s, 0.5) << "the best so far stays";
  EXPECT_DOUBLE_EQ(points[3].best_s, 0.25);
  EXPECT_DOUBLE_EQ(points[3].wall_s, 4);
  EXPECT_TRUE(learning_curve({}, 400).empty());
}

TEST(LearningCurve, PercentilesIgnoreInvalidMeasurements) {
  std::vector<CurveSample> samples;
  for (int i = 100; i >= 1; --i) samples.push_back({true, i * 1.0, 0});
  for (int i = 0; i < 100; ++i) samples.push_back({false, 1e-9, 0});
  const auto points = learning_curve(samples, 1);
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].count, 200u);
  EXPECT_EQ(points[0].valid, 100u);
  EXPECT_EQ(points[0].step_time_s, (std::array<double, 5>{5, 25, 50, 75, 95}));
  EXPECT_DOUBLE_EQ(points[0].best_s, 1) << "what does not fit is never the best";
}

TEST(LearningCurve, ManyMeasurementsHaveNoMorePointsThanRequested) {
  std::vector<CurveSample> samples(1'000'003, {true, 2, 0});
  samples[700'000].step_time_s = 1;
  const auto points = learning_curve(samples, 400);
  EXPECT_LE(points.size(), 400u);
  EXPECT_GE(points.size(), 390u);
  EXPECT_EQ(points.back().measurements, samples.size()) << "every measurement counts";
  EXPECT_DOUBLE_EQ(points.back().best_s, 1);
  std::uint64_t counted = 0;
  for (const CurvePoint& point : points) counted += point.count;
  EXPECT_EQ(counted, samples.size());
}

}  // namespace
}  // namespace emplace::record

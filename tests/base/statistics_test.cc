// Goal: rank correlations match their definitions. Method: worked examples, and the definition itself, pair
// by pair, on random values with ties.
#include "base/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"

namespace emplace {
namespace {

int sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

double kendall_by_pairs(const std::vector<double>& a, const std::vector<double>& b) {
  double score = 0, in_a = 0, in_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = i + 1; j < a.size(); ++j) {
      score += sign(a[i] - a[j]) * sign(b[i] - b[j]);
      in_a += a[i] != a[j];
      in_b += b[i] != b[j];
    }
  }
  return score / std::sqrt(in_a * in_b);
}

/// 1 - 6 Σ d² / (n (n² - 1)), which holds without ties.
double spearman_without_ties(const std::vector<double>& a, const std::vector<double>& b) {
  const auto rank = [](const std::vector<double>& v, std::size_t i) {
    double below = 0;
    for (const double other : v) below += other < v[i];
    return below;
  };
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(rank(a, i) - rank(b, i), 2);
  const auto n = static_cast<double>(a.size());
  return 1 - 6 * squares / (n * (n * n - 1));
}

TEST(Agreement, IsOneForEqualAndMinusOneForReversedOrder) {
  const std::vector<double> a{1, 2, 3, 4, 5, 6}, b{2, 4, 6, 8, 10, 12}, c{6, 5, 4, 3, 2, 1};
  const Agreement same = agreement(a, b);
  EXPECT_DOUBLE_EQ(same.spearman, 1);
  EXPECT_DOUBLE_EQ(same.kendall, 1);
  EXPECT_DOUBLE_EQ(same.error_mean, 1);
  EXPECT_EQ(same.top5_overlap, 5u);
  const Agreement reversed = agreement(a, c);
  EXPECT_DOUBLE_EQ(reversed.spearman, -1);
  EXPECT_DOUBLE_EQ(reversed.kendall, -1);
  EXPECT_EQ(reversed.top5_overlap, 4u);
}

TEST(Agreement, ErrorsAreRelativeToLoggedValues) {
  const std::vector<double> logged{1, 2, 4, 10}, again{1.1, 2, 3, 20};
  const Agreement found = agreement(logged, again);
  EXPECT_NEAR(found.error_median, 0.1, 1e-12);
  EXPECT_NEAR(found.error_max, 1, 1e-12);
  EXPECT_NEAR(found.error_p95, 1, 1e-12);
  EXPECT_NEAR(found.error_mean, (0.1 + 0 + 0.25 + 1) / 4, 1e-12);
}

TEST(Agreement, MatchesItsDefinitionWithTies) {
  Rng rng{5, Purpose::kTest, 0};
  for (int round = 0; round < 50; ++round) {
    const std::size_t n = 2 + rng.below(60);
    const std::uint32_t values = round % 2 == 0 ? 5 : 1'000'000;  // Many ties, or hardly any.
    std::vector<double> a, b;
    for (std::size_t i = 0; i < n; ++i) {
      a.push_back(1 + rng.below(values));
      b.push_back(1 + rng.below(values));
    }
    const double expected = kendall_by_pairs(a, b), found = agreement(a, b).kendall;
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found));
    } else {
      EXPECT_NEAR(found, expected, 1e-9) << "round " << round;
    }
    if (values > 5) {
      EXPECT_NEAR(agreement(a, b).spearman, spearman_without_ties(a, b), 1e-6);
    }
  }
}

TEST(Agreement, TooFewValuesGiveNan) {
  EXPECT_EQ(agreement({}, {}).count, 0u);
  EXPECT_TRUE(std::isnan(agreement({}, {}).error_max));
  const std::vector<double> one{2};
  EXPECT_TRUE(std::isnan(agreement(one, one).spearman));
  EXPECT_EQ(agreement(one, one).error_max, 0);
  const std::vector<double> constant{2, 2, 2}, rising{1, 2, 3};
  EXPECT_TRUE(std::isnan(agreement(constant, rising).spearman));
  EXPECT_TRUE(std::isnan(agreement(constant, rising).kendall));
}

}  // namespace
}  // namespace emplace

// Goal: formulas of sizes have their values up to 2^62 in both directions, also on the way to a small result,
// and nothing beyond. Method: formulas as torch writes them.
#include "graph/symbolic_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace emplace {
namespace {

using ::testing::HasSubstr;

Result<std::optional<std::int64_t>> value_of(const std::string& formula) {
  const OpenDims dims{.named = {{"s0", 8}}, .batch = {}};
  DimUsage usage{dims};
  return evaluate_size(formula, 1, usage);
}

TEST(EvaluateSize, EvaluatesFormulasOfTorch) {
  EXPECT_EQ(value_of("8*s0").value(), 64);
  EXPECT_EQ(value_of("(((s0 - 1)//2)) + 1").value(), 4);
  EXPECT_EQ(value_of("Max(1, s0)").value(), 8);
  EXPECT_EQ(value_of("Mul(Integer(8), Symbol('s0', positive=True, integer=True))").value(), 64);
  EXPECT_EQ(value_of("s1").value(), std::nullopt);
}

TEST(EvaluateSize, PermitsLargeValuesOnTheWay) {
  EXPECT_EQ(value_of("s0 - 5000000000 + 5000000000").value(), 8);
  EXPECT_EQ(value_of("s0 - 4000000000000000000 + 4000000000000000000").value(), 8);
  EXPECT_EQ(value_of("s0 + 4000000000000000000 - 4000000000000000000").value(), 8);
}

TEST(EvaluateSize, RefusesValuesBeyondTheLimit) {
  for (const char* formula :
       {"s0 * 1000000000000000000", "0 - s0 * 1000000000000000000", "9000000000000000000"}) {
    const auto value = value_of(formula);
    ASSERT_FALSE(value.ok()) << formula;
    EXPECT_THAT(value.error().context, HasSubstr("is beyond 2^62"));
  }
}

}  // namespace
}  // namespace emplace

// Goal: the two macros return the error, pass on the value, and may be used side by side and nested. Method:
// calls that are counted; values that cannot be copied.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/result.h"

namespace emplace {
namespace {

Result<Unit> succeed_if(bool good, int& calls) {
  ++calls;
  if (!good) return Error{Errc::kIo, "refused"};
  return Unit{};
}

Result<std::unique_ptr<int>> boxed(int value) {
  if (value < 0) return invalid("box", "is negative");
  return std::make_unique<int>(value);
}

Result<std::string> both(bool first, bool second, int& calls) {
  EMPLACE_TRY(succeed_if(first, calls));
  EMPLACE_TRY(succeed_if(second, calls));
  return std::string{"done"};
}

TEST(Try, ReturnsAtTheFirstErrorAndContinuesWithoutOne) {
  int calls = 0;
  const auto done = both(true, true, calls);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(*done, "done");
  EXPECT_EQ(calls, 2);
  const auto left = both(false, true, calls);
  ASSERT_FALSE(left.ok());
  EXPECT_EQ(left.error().code, Errc::kIo);
  EXPECT_EQ(left.error().context, "refused");
  EXPECT_EQ(calls, 3);
}

Result<int> under_an_if(bool asked, bool good, int& calls) {
  if (asked)
    EMPLACE_TRY(succeed_if(good, calls));
  else
    return 1;
  return 2;
}

TEST(Try, IsOneStatement) {
  int calls = 0;
  EXPECT_EQ(*under_an_if(false, false, calls), 1);
  EXPECT_EQ(*under_an_if(true, true, calls), 2);
  EXPECT_FALSE(under_an_if(true, false, calls).ok());
  EXPECT_EQ(calls, 2);
}

Result<int> sum(int a, int b) {
  EMPLACE_TRY_ASSIGN(const std::unique_ptr<int> left, boxed(a));
  EMPLACE_TRY_ASSIGN(auto right, boxed(b));
  int total = *left;
  EMPLACE_TRY_ASSIGN(right, boxed(*right + 1));  // Assigns to an existing variable.
  total += *right;
  return total;
}

TEST(TryAssign, MovesTheValueIntoANewOrExistingVariable) {
  EXPECT_EQ(*sum(2, 3), 6);
  EXPECT_EQ(sum(-1, 3).error().context, "box: is negative");
  EXPECT_EQ(sum(2, -1).error().context, "box: is negative");
}

template <class A, class B>
Result<std::pair<A, B>> paired(A a, B b) {
  return std::pair<A, B>{std::move(a), std::move(b)};
}

// Both macros within their own arguments, on one line and on several, and commas in template arguments.
Result<int> nested(int value, int& calls) {
  const auto twice = [&]() -> Result<int> {
    EMPLACE_TRY(succeed_if(true, calls));
    return 2 * value;
  };
  EMPLACE_TRY([&]() -> Result<Unit> {
    EMPLACE_TRY(succeed_if(value > 0, calls));
    EMPLACE_TRY_ASSIGN(const int inner, twice());
    return succeed_if(inner > 2, calls);
  }());
  EMPLACE_TRY_ASSIGN(const int outer, [&]() -> Result<int> {
    EMPLACE_TRY_ASSIGN(const int inner, twice());
    return inner + 1;
  }());
  EMPLACE_TRY((paired<int, int>(1, 2)));
  EMPLACE_TRY(paired<int, int>(1, 2));
  EMPLACE_TRY_ASSIGN(const auto both, paired<int, std::unique_ptr<int>>(outer, nullptr));
  return both.first;
}

TEST(Try, WorksWithinItsOwnArgument) {
  int calls = 0;
  EXPECT_EQ(*nested(2, calls), 5);
  EXPECT_EQ(calls, 4);
  EXPECT_FALSE(nested(0, calls).ok());
  EXPECT_EQ(calls, 5);
  EXPECT_FALSE(nested(1, calls).ok());
}

}  // namespace
}  // namespace emplace

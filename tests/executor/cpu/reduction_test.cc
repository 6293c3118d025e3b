// Goal: reductions equal sums in double, over any dimensions of any view; they are nearly as exact for
// millions of elements. Method: seeded random shapes and views against a plain loop; sums whose value is
// known.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/executor/cpu/random_operand.h"

namespace emplace::cpu {
namespace {

struct Reduction {
  std::string type;
  double start;
  double (*join)(double, double);
  double (*finish)(double, double count);
};

double as_is(double total, double) { return total; }
double add(double a, double b) { return a + b; }

const Reduction kReductions[] = {
    {"aten::sum", 0, add, as_is},
    {"ReduceMean", 0, add, [](double total, double count) { return total / count; }},
    {"aten::amax", -INFINITY, [](double a, double b) { return std::max(a, b); }, as_is},
    {"ReduceMin", INFINITY, [](double a, double b) { return std::min(a, b); }, as_is},
    {"ReduceSumSquare", 0, [](double a, double b) { return a + b * b; }, as_is},
    {"ReduceL1", 0, [](double a, double b) { return a + std::abs(b); }, as_is},
    {"ReduceL2", 0, [](double a, double b) { return a + b * b; },
     [](double total, double) { return std::sqrt(total); }},
};

std::string list_of(const std::vector<std::int64_t>& dims) {
  std::string text;
  for (const std::int64_t dim : dims) text += (text.empty() ? "" : ",") + std::to_string(dim);
  return "[" + text + "]";
}

TEST(ReductionKernels, EqualALoopInDouble) {
  Rng rng{31, Purpose::kTest};
  for (int round = 0; round < 700; ++round) {
    const Reduction& reduction = kReductions[rng.below(std::size(kReductions))];
    const DType dtype = rng.below(5) == 0 ? DType::kF64 : DType::kF32;
    std::vector<std::int64_t> shape = random_shape(rng, 4, 90), kept, dims;
    if (shape.empty()) shape = {3};
    const bool keeps = rng.below(2) == 0;
    std::vector<bool> goes(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      goes[d] = rng.below(2) == 0;
      if (goes[d])
        dims.push_back(static_cast<std::int64_t>(d) -
                       (rng.below(2) == 0 ? 0 : static_cast<std::int64_t>(shape.size())));
      if (!goes[d] || keeps) kept.push_back(goes[d] ? 1 : shape[d]);
    }
    if (dims.empty()) continue;
    const Operand in = random_view(shape, rng, dtype), out = packed(kept, dtype);
    Values values = shared_places(in, normal_values(in, rng));
    for (double& value : values) value = static_cast<float>(value);
    Values wanted(static_cast<std::size_t>(out.elements()), reduction.start);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::size_t rest = i, place = 0, step = 1;
      for (std::size_t d = shape.size(); d-- > 0;) {
        if (!goes[d]) {
          place += rest % static_cast<std::size_t>(shape[d]) * step;
          step *= static_cast<std::size_t>(shape[d]);
        }
        rest /= static_cast<std::size_t>(shape[d]);
      }
      wanted[place] = reduction.join(wanted[place], values[i]);
    }
    const double count = static_cast<double>(in.elements()) / static_cast<double>(out.elements());
    for (double& value : wanted) value = reduction.finish(value, count);
    const std::string attrs = "{\"dim\":" + list_of(dims) + "}";
    SCOPED_TRACE(reduction.type + attrs + list_of(shape) + " strides " + list_of(in.strides));
    const auto outputs = run_kernel({reduction.type, attrs, {in}, {out}}, {values});
    ASSERT_EQ(outputs.size(), 1u);
    expect_near(outputs[0], wanted, 2e-6, 2e-6);
    ASSERT_FALSE(HasFatalFailure());
  }
}

// A million numbers near 1: single precision alone would lose three digits.
TEST(ReductionKernels, SumMillionsWithoutLossOfDigits) {
  const Operand x = packed({1 << 20}), columns = packed({1 << 17, 8});
  Rng rng{32, Purpose::kTest};
  Values values(1 << 20);
  double total = 0;
  Values by_column(8, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 1 + rng.uniform();
    total += values[i];
    by_column[i % 8] += values[i];
  }
  expect_near(run_kernel({"aten::sum", "{}", {x}, {packed({})}}, {values}).at(0), {total}, 2e-7, 0);
  expect_near(run_kernel({"aten::sum", R"({"dim":[0]})", {columns}, {packed({8})}}, {values}).at(0),
              by_column, 2e-7, 0);
}

TEST(ReductionKernels, HandleIntegersBooleansAndNaN) {
  const Operand wholes = packed({2, 3}, DType::kI64), truth = packed({2, 3}, DType::kBool),
                rows = packed({2}, DType::kI64);
  EXPECT_EQ(run_kernel({"aten::sum", R"({"dim":[1]})", {wholes}, {rows}}, {{1, 2, 3, -4, 5, 6}}).at(0),
            (Values{6, 7}));
  EXPECT_EQ(run_kernel({"aten::sum", R"({"dim":[1]})", {truth}, {rows}}, {{1, 0, 1, 0, 0, 0}}).at(0),
            (Values{2, 0}));
  EXPECT_EQ(run_kernel({"aten::prod", R"({"dim":1})", {wholes}, {rows}}, {{1, 2, 3, -4, 5, 6}}).at(0),
            (Values{6, -120}));
  Values large(100, 1.0);
  large[63] = NAN;
  const auto most = run_kernel({"aten::amax", R"({"dim":[0]})", {packed({100})}, {packed({})}}, {large});
  EXPECT_TRUE(std::isnan(most.at(0).at(0)));
}

TEST(ReductionKernels, InferDimensionsFromShapes) {
  const Operand x = packed({2, 3, 4});
  Values values(24, 1.0);
  EXPECT_EQ(run_kernel({"ReduceSum", "{}", {x, packed({1}, DType::kI64)}, {packed({2, 1, 4})}}, {values, {1}})
                .at(0),
            Values(8, 3.0));
  EXPECT_EQ(run_kernel({"Sum", "{}", {x, packed({2}, DType::kI32)}, {packed({3})}}, {values, {0, 2}}).at(0),
            Values(3, 8.0));
  EXPECT_EQ(run_kernel({"BiasAddGrad", "{}", {packed({2, 2})}, {packed({2})}}, {{1, 2, 3, 4}}).at(0),
            (Values{4, 6}));
  EXPECT_EQ(run_kernel({"aten::mean", "{}", {packed({0})}, {packed({})}}, {{}}).at(0).size(), 1u);
  EXPECT_NE(refusal({"ReduceSum", "{}", {packed({3, 3})}, {packed({3})}}).find("ambiguous from the shapes"),
            std::string::npos);
}

TEST(ReductionKernels, RefusalsNameTheFault) {
  const Operand x = packed({2, 3}), half = packed({2, 3}, DType::kF16), wholes = packed({2, 3}, DType::kI64);
  EXPECT_EQ(refusal({"aten::sum", R"({"dim":[2]})", {x}, {packed({2})}}),
            "aten::sum: dimension 2 is out of range for 2 dimensions");
  EXPECT_NE(refusal({"aten::sum", R"({"dim":[1]})", {x}, {packed({3})}}).find("output shape"),
            std::string::npos);
  EXPECT_EQ(refusal({"aten::sum", R"({"dim":[1]})", {half}, {packed({2}, DType::kF16)}}),
            "aten::sum: no kernel for f16");
  EXPECT_EQ(refusal({"aten::mean", R"({"dim":[1]})", {wholes}, {packed({2}, DType::kI64)}}),
            "aten::mean: no kernel for i64");
  EXPECT_NE(refusal({"aten::norm", R"({"p":3})", {x}, {packed({})}}).find("order"), std::string::npos);
}

}  // namespace
}  // namespace emplace::cpu

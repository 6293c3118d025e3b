// Goal: every elementwise kernel equals its formula, for any layout of its operands. Method: seeded random
// shapes, views and broadcasts against formulas in double; the range of float32 for the approximations; the
// same memory for input and output.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "executor/cpu/kernels/elementwise/elementwise_math.h"
#include "tests/executor/cpu/random_operand.h"

namespace emplace::cpu {
namespace {

struct Formula {
  std::string type, attrs;
  std::size_t operands;
  std::function<double(double, double, double)> of;
  double from = -4, to = 4;  // Range of the operands.
};

double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }
double normal_share(double x) { return (1 + std::erf(x / std::sqrt(2.0))) / 2; }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_tanh(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

const std::vector<Formula>& formulas() {
  static const std::vector<Formula> kAll{
      {"aten::add", "{}", 2, [](double a, double b, double) { return a + b; }},
      {"aten::add", R"({"alpha":-0.125})", 2, [](double a, double b, double) { return a - 0.125 * b; }},
      {"aten::add", "{}", 1, [](double a, double, double) { return a + 0.5; }},
      {"aten::sub", R"({"alpha":2})", 2, [](double a, double b, double) { return a - 2 * b; }},
      {"aten::rsub", "{}", 1, [](double a, double, double) { return 0.5 - a; }},
      {"aten::rsub", "{}", 2, [](double a, double b, double) { return b - a; }},
      {"aten::mul", "{}", 2, [](double a, double b, double) { return a * b; }},
      {"aten::mul", R"({"other":3})", 1, [](double a, double, double) { return 3 * a; }},
      {"aten::div", "{}", 2, [](double a, double b, double) { return a / b; }, 0.5, 4},
      {"aten::div", R"({"rounding_mode":"floor"})", 2,
       [](double a, double b, double) { return std::floor(a / b); }, 0.5, 4},
      {"aten::pow", R"({"exponent":2})", 1, [](double a, double, double) { return a * a; }},
      {"Pow", "{}", 2, [](double a, double b, double) { return std::pow(a, b); }, 0.1, 3},
      {"aten::maximum", "{}", 2, [](double a, double b, double) { return std::max(a, b); }},
      {"Minimum", "{}", 2, [](double a, double b, double) { return std::min(a, b); }},
      {"aten::remainder", "{}", 2, [](double a, double b, double) { return a - b * std::floor(a / b); }, 0.5,
       4},
      {"aten::clamp", R"({"max":1})", 1, [](double a, double, double) { return std::min(a, 1.0); }},
      {"aten::sqrt", "{}", 1, [](double a, double, double) { return std::sqrt(a); }, 0, 9},
      {"aten::rsqrt", "{}", 1, [](double a, double, double) { return 1 / std::sqrt(a); }, 0.1, 9},
      {"aten::relu", "{}", 1, [](double a, double, double) { return std::max(a, 0.0); }},
      {"aten::sigmoid", "{}", 1, [](double a, double, double) { return logistic(a); }},
      {"aten::tanh", "{}", 1, [](double a, double, double) { return std::tanh(a); }},
      {"aten::exp", "{}", 1, [](double a, double, double) { return std::exp(a); }},
      {"aten::log", "{}", 1, [](double a, double, double) { return std::log(a); }, 0.01, 9},
      {"Erf", "{}", 1, [](double a, double, double) { return std::erf(a); }},
      {"aten::neg", "{}", 1, [](double a, double, double) { return -a; }},
      {"aten::abs", "{}", 1, [](double a, double, double) { return std::abs(a); }},
      {"aten::sign", "{}", 1, [](double a, double, double) { return a > 0 ? 1 : (a < 0 ? -1 : 0); }},
      {"Round", "{}", 1, [](double a, double, double) { return std::nearbyint(a); }},
      {"aten::gelu", "{}", 1, [](double a, double, double) { return a * normal_share(a); }},
      {"aten::gelu", R"({"approximate":"tanh"})", 1, [](double a, double, double) { return gelu_tanh(a); }},
      {"aten::silu", "{}", 1, [](double a, double, double) { return a * logistic(a); }},
      {"aten::softplus", "{}", 1, [](double a, double, double) { return std::log1p(std::exp(a)); }},
      {"aten::elu", "{}", 1, [](double a, double, double) { return a < 0 ? std::expm1(a) : a; }},
      {"aten::leaky_relu", R"({"negative_slope":0.25})", 1,
       [](double a, double, double) { return a < 0 ? a / 4 : a; }},
      {"HardSigmoid", R"({"alpha":0.25})", 1,
       [](double a, double, double) { return std::clamp(0.25 * a + 0.5, 0.0, 1.0); }},
      {"aten::hardswish", "{}", 1,
       [](double a, double, double) { return a * std::clamp(a + 3, 0.0, 6.0) / 6; }},
      {"aten::threshold_backward", "{}", 2, [](double g, double x, double) { return x > 0 ? g : 0; }},
      {"aten::sigmoid_backward", "{}", 2, [](double g, double y, double) { return g * y * (1 - y); }},
      {"aten::tanh_backward", "{}", 2, [](double g, double y, double) { return g * (1 - y * y); }},
      {"TanhGrad", "{}", 2, [](double y, double g, double) { return g * (1 - y * y); }},
      {"aten::gelu_backward", "{}", 2,
       [](double g, double x, double) { return g * (normal_share(x) + x * normal_density(x)); }},
      {"aten::gelu_backward", R"({"approximate":"tanh"})", 2,
       [](double g, double x, double) { return g * (gelu_tanh(x + 1e-5) - gelu_tanh(x - 1e-5)) / 2e-5; }},
      {"aten::silu_backward", "{}", 2,
       [](double g, double x, double) { return g * logistic(x) * (1 + x * (1 - logistic(x))); }},
      {"aten::addcmul", R"({"value":-0.5})", 3, [](double a, double b, double c) { return a - 0.5 * b * c; }},
      {"aten::addcdiv", "{}", 3, [](double a, double b, double c) { return a + b / c; }, 0.5, 4},
      {"aten::lerp", "{}", 3, [](double a, double b, double w) { return a + w * (b - a); }},
      {"aten::where", "{}", 3, [](double a, double b, double c) { return a != 0 ? b : c; }},
      {"Clip", "{}", 3, [](double x, double low, double high) { return std::min(std::max(x, low), high); }},
  };
  return kAll;
}

Values uniform_values(const Operand& operand, Rng& rng, double from, double to) {
  Values values(static_cast<std::size_t>(operand.elements()));
  for (double& value : values) value = static_cast<float>(from + (to - from) * rng.uniform());
  return shared_places(operand, std::move(values));
}

void expect_its_formula(const Formula& formula, DType dtype, Rng& rng) {
  const std::vector<std::int64_t> shape = random_shape(rng, 4);
  Signature signature{formula.type, formula.attrs, {}, {packed(shape, dtype)}};
  std::vector<Values> inputs;
  for (std::size_t k = 0; k < formula.operands; ++k) {
    signature.inputs.push_back(k == 0 ? random_view(shape, rng, dtype) : random_broadcast(shape, rng, dtype));
    inputs.push_back(uniform_values(signature.inputs.back(), rng, formula.from, formula.to));
  }
  Values wanted(static_cast<std::size_t>(signature.outputs[0].elements()));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    double x[3] = {};
    for (std::size_t k = 0; k < inputs.size(); ++k)
      x[k] = inputs[k][broadcast_index(signature.inputs[k], shape, i)];
    wanted[i] = formula.of(x[0], x[1], x[2]);
  }
  const auto outputs = run_kernel(signature, inputs);
  ASSERT_EQ(outputs.size(), 1u);
  // A remainder or a rounded quotient jumps where the quotient is an integer.
  const bool jumps = formula.type == "aten::remainder" || formula.attrs.find("floor") != std::string::npos;
  if (!jumps) return expect_near(outputs[0], wanted, 2e-6, 2e-6);
  std::size_t far = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) far += std::abs(outputs[0][i] - wanted[i]) > 1e-5 ? 1 : 0;
  EXPECT_LE(far, wanted.size() / 1000 + 1);
}

TEST(ElementwiseKernels, EqualTheirFormulasOnViewsAndBroadcasts) {
  Rng rng{21, Purpose::kTest};
  for (const Formula& formula : formulas()) {
    SCOPED_TRACE(formula.type + formula.attrs);
    for (int round = 0; round < 25; ++round) expect_its_formula(formula, DType::kF32, rng);
    for (int round = 0; round < 5; ++round) expect_its_formula(formula, DType::kF64, rng);
    if (HasFatalFailure()) return;
  }
}

// In place, a kernel gives the same as elsewhere, in every path through the loops.
TEST(ElementwiseKernels, MayOverwriteTheDeclaredInputs) {
  Rng rng{22, Purpose::kTest};
  int tried = 0;
  for (int round = 0; round < 300; ++round) {
    const Formula& formula = formulas()[rng.below(static_cast<std::uint32_t>(formulas().size()))];
    const std::vector<std::int64_t> shape = random_shape(rng, 3, 200);
    Signature signature{formula.type, formula.attrs, {}, {packed(shape)}};
    std::vector<std::vector<float>> memory;
    for (std::size_t k = 0; k < formula.operands; ++k) {
      signature.inputs.push_back(rng.below(2) == 0 ? packed(shape) : random_broadcast(shape, rng));
      memory.emplace_back(static_cast<std::size_t>(2 * signature.inputs.back().elements() + 1));
      for (float& value : memory.back())
        value = static_cast<float>(formula.from + (formula.to - formula.from) * rng.uniform());
    }
    const auto kernel = make_kernel(signature);
    ASSERT_TRUE(kernel) << kernel.error().context;
    std::vector<const std::byte*> in;
    for (const auto& values : memory) in.push_back(reinterpret_cast<const std::byte*>(values.data()));
    std::vector<float> apart(static_cast<std::size_t>(signature.outputs[0].elements()));
    auto* out = reinterpret_cast<std::byte*>(apart.data());
    (*kernel)->run({in, {&out, 1}});
    for (std::size_t k = 0; k < in.size(); ++k) {
      const Operand& input = signature.inputs[k];
      ASSERT_EQ((*kernel)->may_overwrite(k), input.shape == shape && input.is_packed()) << formula.type;
      if (!(*kernel)->may_overwrite(k)) continue;
      ++tried;
      std::vector<float> shared = memory[k];
      auto with = in;
      auto* over = reinterpret_cast<std::byte*>(shared.data());
      with[k] = over;
      (*kernel)->run({with, {&over, 1}});
      ASSERT_EQ(std::memcmp(shared.data(), apart.data(), apart.size() * sizeof(float)), 0)
          << formula.type << k;
    }
    EXPECT_FALSE((*kernel)->may_overwrite(in.size()));
  }
  EXPECT_GT(tried, 200);
}

// Every float32 from either end, a prime's distance apart, against the library in double.
TEST(Approximations, AreWithinTheirBoundOverTheWholeRange) {
  struct {
    const char* name;
    float (*fast)(float);
    double (*exact)(double);
  } const kAll[] = {{"exp", exp_of, std::exp},
                    {"tanh", tanh_of, std::tanh},
                    {"erf", erf_of, std::erf},
                    {"sigmoid", sigmoid_of, logistic}};
  for (const auto& one : kAll) {
    double worst = 0;
    for (std::uint64_t bits = 0; bits < 0x1'0000'0000; bits += 10'007) {
      const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      const double exact = one.exact(static_cast<double>(x));
      const float fast = one.fast(x);
      if (std::isnan(x)) {
        EXPECT_TRUE(std::isnan(fast)) << one.name;
      } else if (std::abs(exact) > 3.4e38) {
        EXPECT_TRUE(std::isinf(fast)) << one.name << " of " << x;
      } else if (std::abs(exact) < 1.2e-38) {
        EXPECT_NEAR(fast, exact, 1.2e-38) << one.name << " of " << x;
      } else {
        worst = std::max(worst, std::abs(static_cast<double>(fast) - exact) / std::abs(exact));
      }
    }
    EXPECT_LT(worst, 3e-7) << one.name;
  }
}

// A step has the same bits whichever instructions a machine runs.
TEST(ElementwiseKernels, WiderInstructionsGiveTheSameBits) {
  if (wide_rows("aten::tanh") == nullptr) GTEST_SKIP() << "no AVX-512 here";
  EXPECT_EQ(wide_rows("aten::add"), nullptr) << "memory bounds it";
  std::vector<float> x, g, narrow, wide;
  for (std::uint64_t bits = 0; bits < 0x1'0000'0000; bits += 100'003) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    g.push_back(static_cast<float>(x.size()));
    // The payload of a NaN is not specified.
    if (std::isnan(x.back())) x.back() = 1;
  }
  narrow.resize(x.size());
  wide.resize(x.size());
  const double scalars[] = {1, 1};
  int tried = 0;
  for (const auto forms : {unary_forms(), gradient_forms()}) {
    for (const ElementwiseForm& form : forms) {
      const RowSet* rows = wide_rows(form.first_type());
      if (rows == nullptr) continue;
      const std::byte* in[] = {reinterpret_cast<const std::byte*>(x.data()),
                               reinterpret_cast<const std::byte*>(x.data())};
      if (form.operands == 2) in[0] = reinterpret_cast<const std::byte*>(g.data());
      for (std::size_t k = 0; k < 4; k += form.operands == 2 ? 1 : 4) {
        if (k == 3) continue;
        const auto n = static_cast<std::int64_t>(x.size());
        form.rows(DType::kF32)->row[k](n, reinterpret_cast<std::byte*>(narrow.data()), in, scalars);
        rows->row[k](n, reinterpret_cast<std::byte*>(wide.data()), in, scalars);
        for (std::size_t i = 0; i < x.size(); ++i) {
          if (std::isnan(narrow[i]) && std::isnan(wide[i])) continue;
          ASSERT_EQ(std::bit_cast<std::uint32_t>(narrow[i]), std::bit_cast<std::uint32_t>(wide[i]))
              << form.types << " of " << x[i];
        }
        ++tried;
      }
    }
  }
  EXPECT_GE(tried, 20);
}

TEST(ElementwiseKernels, IntegersWrapAndDivisionByZeroIsZero) {
  const auto i64 = [](std::vector<std::int64_t> shape) { return packed(std::move(shape), DType::kI64); };
  const auto of = [&](const char* type, Values a, Values b) {
    return run_kernel({type, "{}", {i64({3}), i64({3})}, {i64({3})}}, {std::move(a), std::move(b)}).at(0);
  };
  EXPECT_EQ(of("aten::add", {1, -2, 3}, {4, 5, -6}), (Values{5, 3, -3}));
  EXPECT_EQ(of("aten::mul", {1, -2, 3}, {4, 5, -6}), (Values{4, -10, -18}));
  EXPECT_EQ(of("aten::floor_divide", {7, -7, 7}, {2, 2, 0}), (Values{3, -4, 0}));
  EXPECT_EQ(of("Div", {7, -7, 7}, {2, 2, 0}), (Values{3, -3, 0}));
  EXPECT_EQ(of("aten::remainder", {7, -7, 7}, {-2, 2, 0}), (Values{-1, 1, 0}));
  EXPECT_EQ(of("Pow", {3, -2, 5}, {4, 3, -1}), (Values{81, -8, 0}));
  EXPECT_EQ(of("aten::floor_divide", {-9223372036854775808.0, 1, 1}, {-1, 1, 1})[0], -9223372036854775808.0);
}

TEST(ElementwiseKernels, ComparisonsGiveBooleansAndMixDtypes) {
  const Operand floats = packed({4}), wholes = packed({4}, DType::kI64), truth = packed({4}, DType::kBool);
  const Values a{1, 2, 3, 4}, b{4, 2, 0, 4};
  EXPECT_EQ(run_kernel({"aten::eq", "{}", {floats, wholes}, {truth}}, {a, b}).at(0), (Values{0, 1, 0, 1}));
  EXPECT_EQ(run_kernel({"aten::lt", R"({"other":3})", {wholes}, {truth}}, {a}).at(0), (Values{1, 1, 0, 0}));
  EXPECT_EQ(run_kernel({"And", "{}", {truth, truth}, {truth}}, {{1, 1, 0, 0}, {1, 0, 1, 0}}).at(0),
            (Values{1, 0, 0, 0}));
  EXPECT_EQ(run_kernel({"aten::mul", "{}", {floats, truth}, {floats}}, {a, {1, 0, 0, 1}}).at(0),
            (Values{1, 0, 0, 4}));
  EXPECT_EQ(run_kernel({"aten::where", "{}", {truth, floats, floats}, {floats}}, {{1, 0, 0, 1}, a, b}).at(0),
            (Values{1, 2, 0, 4}));
  EXPECT_EQ(run_kernel({"aten::masked_fill", R"({"value":-7})", {floats, truth}, {floats}}, {a, {1, 0, 0, 1}})
                .at(0),
            (Values{-7, 2, 3, -7}));
  EXPECT_EQ(run_kernel({"Cast", "{}", {wholes}, {floats}}, {a}).at(0), a);
  EXPECT_EQ(run_kernel({"Cast", "{}", {floats}, {truth}}, {{0, 0.5, -1, 0}}).at(0), (Values{0, 1, 1, 0}));
  EXPECT_EQ(run_kernel({"Cast", "{}", {floats}, {wholes}}, {{0.9, -1.9, 2, 3}}).at(0), (Values{0, -1, 2, 3}));
}

TEST(ElementwiseKernels, SumManyInputsInOrder) {
  const Operand x = packed({2, 3}), row = packed({3});
  const Values a{1, 2, 3, 4, 5, 6}, b{10, 20, 30};
  EXPECT_EQ(run_kernel({"Sum", "{}", {x, row, x}, {x}}, {a, b, a}).at(0), (Values{12, 24, 36, 18, 30, 42}));
  EXPECT_EQ(run_kernel({"AddN", "{}", {x}, {x}}, {a}).at(0), a);
  EXPECT_EQ(run_kernel({"Max", "{}", {x, row, x}, {x}}, {a, b, a}).at(0), (Values{10, 20, 30, 10, 20, 30}));
  expect_near(run_kernel({"Mean", "{}", {x, x, row}, {x}}, {a, a, b}).at(0), {4, 8, 12, 6, 10, 14}, 1e-6, 0);
}

TEST(ElementwiseKernels, BiasIsOneNumberPerChannel) {
  const Operand image = packed({1, 2, 2, 2}), bias = packed({2});
  const Values x(8, 1.0);
  EXPECT_EQ(run_kernel({"BiasAdd", "{}", {image, bias}, {image}}, {x, {1, 2}}).at(0),
            (Values{2, 2, 2, 2, 3, 3, 3, 3}));
  EXPECT_EQ(run_kernel({"BiasAdd", R"({"data_format":"NHWC"})", {image, bias}, {image}}, {x, {1, 2}}).at(0),
            (Values{2, 3, 2, 3, 2, 3, 2, 3}));
}

TEST(ElementwiseKernels, AcceptEmptyTensorsAndManyDimensions) {
  EXPECT_EQ(
      run_kernel({"aten::add", "{}", {packed({0, 3}), packed({3})}, {packed({0, 3})}}, {{}, {1, 2, 3}}).at(0),
      Values{});
  const std::vector<std::int64_t> shape(10, 2);
  const Operand x = packed(shape);
  Rng rng{3, Purpose::kTest};
  const Values values = normal_values(x, rng);
  Values wanted = values;
  for (double& value : wanted) value = static_cast<float>(value) * 0.5f;
  expect_near(run_kernel({"aten::mul", "{}", {x}, {x}}, {values}).at(0), wanted, 1e-6, 1e-6);
}

TEST(ElementwiseKernels, RefusalsNameTheFault) {
  const Operand x = packed({2, 3}), half = packed({2, 3}, DType::kF16), brain = packed({2, 3}, DType::kBF16);
  EXPECT_EQ(refusal({"aten::add", "{}", {half, half}, {half}}), "aten::add: no kernel for f16");
  EXPECT_EQ(refusal({"aten::mul", "{}", {x, brain}, {x}}), "aten::mul: no kernel for bf16");
  EXPECT_EQ(refusal({"aten::add", "{}", {x, packed({2})}, {x}}),
            "aten::add: input 1 does not broadcast to the output");
  EXPECT_EQ(refusal({"Add", "{}", {x}, {x}}), "Add: operand 1 is missing");
  EXPECT_EQ(refusal({"aten::add", R"({"alpha":"x"})", {x, x}, {x}}),
            "aten::add: attribute alpha is not a number");
  EXPECT_EQ(refusal({"aten::eq", "{}", {x, x}, {x}}), "aten::eq: output dtype f32; expected bool");
  EXPECT_NE(refusal({"aten::relu", "{}", {x, x}, {x}}).find("2 inputs"), std::string::npos);
  std::vector<std::int64_t> many(9, 2);
  std::vector<std::size_t> backwards(9);
  for (std::size_t d = 0; d < 9; ++d) backwards[d] = 8 - d;
  EXPECT_NE(refusal({"aten::add", "{}", {permuted(many, backwards)}, {packed(many)}}).find("8 dimensions"),
            std::string::npos);
}

}  // namespace
}  // namespace emplace::cpu

// Goal: bf16 works where oneDNN and the processor support it, and is refused by name elsewhere. Method: small
// integers, which bf16 represents exactly, through each family; f16 and integers are refused.
#include <gtest/gtest.h>

#include "tests/executor/cpu/kernel_run.h"

namespace emplace::cpu {
namespace {

Operand bf16(std::vector<std::int64_t> shape) { return packed(std::move(shape), DType::kBF16); }

/// Expects `wanted`, or a refusal that names oneDNN.
void expect_values_or_refusal(const Signature& signature, const std::vector<Values>& inputs,
                              const Values& wanted, double absolute = 0) {
  const auto kernel = make_kernel(signature);
  if (!kernel.ok()) {
    EXPECT_EQ(kernel.error().code, Errc::kUnsupported);
    EXPECT_NE(kernel.error().context.find("oneDNN"), std::string::npos) << kernel.error().context;
    return;
  }
  const auto out = run_kernel(signature, inputs);
  ASSERT_FALSE(out.empty());
  expect_near(out[0], wanted, 0, absolute);
}

TEST(Bfloat16Kernels, ComputeSmallIntegersExactly) {
  expect_values_or_refusal({"aten::mm", "{}", {bf16({2, 2}), bf16({2, 2})}, {bf16({2, 2})}},
                           {{1, 2, 3, 4}, {5, 6, 7, 8}}, {19, 22, 43, 50});
  expect_values_or_refusal({"aten::convolution", "{}", {bf16({1, 1, 3}), bf16({1, 1, 2})}, {bf16({1, 1, 2})}},
                           {{1, 2, 3}, {10, 1}}, {12, 23});
  expect_values_or_refusal({"AveragePool",
                            R"({"kernel_shape":[1,2],"strides":[1,2]})",
                            {bf16({1, 1, 1, 4})},
                            {bf16({1, 1, 1, 2})}},
                           {{1, 3, 5, 7}}, {2, 6});
  expect_values_or_refusal({"aten::_softmax", R"({"dim":1})", {bf16({1, 4})}, {bf16({1, 4})}}, {{3, 3, 3, 3}},
                           {0.25, 0.25, 0.25, 0.25}, 0.002);
  const Operand list = packed({1});
  expect_values_or_refusal({"BatchNormalization",
                            R"({"epsilon":0})",
                            {bf16({1, 1, 2, 2}), list, list, list, list},
                            {bf16({1, 1, 2, 2})}},
                           {{1, 2, 3, 4}, {2}, {1}, {1}, {1}}, {1, 3, 5, 7});
}

TEST(Bfloat16Kernels, RefuseHalvesAndIntegers) {
  for (const DType dtype : {DType::kF16, DType::kI64}) {
    const Operand matrix = packed({2, 2}, dtype);
    EXPECT_TRUE(refusal({"aten::mm", "{}", {matrix, matrix}, {matrix}}).starts_with("aten::mm: oneDNN: "));
  }
  const Operand image = packed({1, 1, 2, 2}, DType::kF16);
  EXPECT_EQ(refusal({"MaxPool", R"({"kernel_shape":[2,2]})", {image}, {packed({1, 1, 1, 1}, DType::kF16)}}),
            "MaxPool: dtype f16");
  EXPECT_EQ(refusal({"aten::_softmax", R"({"dim":2})", {image}, {image}}),
            "aten::_softmax: dtype f16 along columns");
}

}  // namespace
}  // namespace emplace::cpu

// Goal: a GPU kernel computes, by the index arithmetic of the device, what PyTorch and the CPU's kernels
// compute, and touches only its own memory. Method: the cases of tests/fixtures/kernels through each kernel's
// CPU twin: the same functors in plain loops (naive ones for cuBLASLt and cuDNN).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/rng.h"
#include "executor/cuda/kernels/divisor.h"
#include "executor/cuda/kernels/kernel.h"
#include "tests/executor/cpu/kernel_case.h"

namespace emplace {
namespace {

using testing::KernelCase;
using testing::KernelRun;

constexpr std::byte kNaNs{0xff}, kOther{0x5a};

TEST(TwinParity, EveryCaseAgreesWithPyTorchAndTheCpuKernels) {
  std::size_t tried = 0;
  for (const KernelCase& of : testing::kernel_cases()) {
    auto kernel = cuda::make_kernel(of.signature);
    if (!kernel) {
      EXPECT_EQ(kernel.error().code, Errc::kUnsupported) << of.name;
      // A type with a kernel accepts every case of its kind, except one product.
      EXPECT_TRUE(!cuda::has_kernel(of.signature.type) || of.name.starts_with("MatMul_4_broadcast"))
          << of.name << ": " << kernel.error().context;
      continue;
    }
    ++tried;
    const auto twin = *std::move(kernel);
    const KernelRun first = testing::run_kernel(*twin, of, kNaNs),
                    again = testing::run_kernel(*twin, of, kOther);
    EXPECT_EQ(first.complaint + again.complaint, "") << of.name;
    EXPECT_EQ(testing::difference(of, first.outputs), "") << of.name;
    EXPECT_EQ(first.outputs, again.outputs) << of.name << ": equal inputs gave different outputs";
    for (std::size_t i = 0; i < of.inputs.size(); ++i) {
      if (!twin->may_overwrite(i)) continue;
      EXPECT_EQ(testing::run_kernel(*twin, of, kNaNs, i).outputs, first.outputs)
          << of.name << " over input " << i;
    }
  }
  EXPECT_GT(tried, 460u);
}

TEST(TwinParity, EveryKindOfTheSharedGraphsHasAKernel) {
  for (const std::string& kind : testing::kinds_in_shared_graphs("training"))
    EXPECT_TRUE(cuda::has_kernel(kind)) << kind;
  for (const std::string& kind : testing::kinds_in_shared_graphs("onnx"))
    EXPECT_TRUE(cuda::has_kernel(kind)) << kind;
}

TEST(TwinParity, RefusesMissingOperands) {
  for (const KernelCase& of : testing::kernel_cases()) {
    Signature signature = of.signature;
    signature.outputs.clear();
    EXPECT_FALSE(cuda::make_kernel(signature)) << of.name;
    if (of.signature.inputs.empty() || of.signature.type.ends_with("_like") ||
        of.signature.type == "aten::new_zeros" || of.signature.type == "aten::bernoulli")
      continue;
    signature = of.signature;
    signature.inputs.clear();
    EXPECT_FALSE(cuda::make_kernel(signature)) << of.name;
  }
}

TEST(TwinParity, MaskedElementsLeaveTheRestOfTheirRowFinite) {
  Rng rng{29, Purpose::kTest};
  for (const std::int64_t columns : {3, 40, 700, 70'000}) {
    const Operand x{DType::kF32, {2, columns}, {columns, 1}};
    for (const char* type : {"aten::_softmax", "aten::_log_softmax"}) {
      auto kernel = cuda::make_kernel({type, R"({"dim":-1})", {x}, {x}});
      ASSERT_TRUE(kernel) << kernel.error().context;
      std::vector<float> in(static_cast<std::size_t>(2 * columns)), out(in.size());
      for (float& value : in)
        value = rng.below(3) == 0 ? static_cast<float>(rng.below(1000)) * 0.01f - 5
                                  : -std::numeric_limits<float>::infinity();
      in[0] = -std::numeric_limits<float>::infinity(), in[1] = 1, in[static_cast<std::size_t>(columns)] = 0;
      std::vector<std::byte> scratch((*kernel)->scratch_bytes());
      const auto* from = reinterpret_cast<const std::byte*>(in.data());
      auto* to = reinterpret_cast<std::byte*>(out.data());
      (*kernel)->run({{&from, 1}, {&to, 1}, scratch.data()});
      for (std::size_t row = 0; row < 2; ++row) {
        const std::span values{in.data() + row * static_cast<std::size_t>(columns),
                               static_cast<std::size_t>(columns)};
        double sum = 0;
        for (const float value : values) sum += std::exp(static_cast<double>(value));
        for (std::size_t k = 0; k < values.size(); ++k) {
          const double share = std::exp(static_cast<double>(values[k])) / sum;
          const float got = out[row * values.size() + k];
          ASSERT_NEAR(type[7] == 'l' ? std::exp(static_cast<double>(got)) : got, share, 1e-5)
              << type << " row " << row << " of " << columns << ", column " << k;
        }
      }
    }
  }
}

TEST(Divisor, DividesLikeTheProcessor) {
  Rng rng{7, Purpose::kTest};
  const auto number = [&] {
    const std::uint64_t word = (std::uint64_t{rng.below(0xffffffffu)} << 32 | rng.below(0xffffffffu)) >> 1;
    return static_cast<std::int64_t>(word >> rng.below(63));
  };
  for (int i = 0; i < 2'000'000; ++i) {
    const std::int64_t d = std::max<std::int64_t>(number(), 1), n = number();
    const cuda::Divisor by{d};
    for (const std::int64_t index : {n, n / d * d, std::max<std::int64_t>(n / d * d - 1, 0)}) {
      ASSERT_EQ(by.quotient(index), index / d) << index << " by " << d;
      ASSERT_EQ(by.rest(index), index % d) << index << " by " << d;
    }
  }
  EXPECT_EQ(cuda::Divisor{std::numeric_limits<std::int64_t>::max()}.quotient(
                std::numeric_limits<std::int64_t>::max()),
            1);
}

}  // namespace
}  // namespace emplace

// Goal: what a GPU kernel computes, by the index arithmetic that the device runs, is what PyTorch computes
// and what the CPU's kernels compute, and it touches nothing but its own memory. Method: the cases of
// tests/fixtures/kernels through each kernel's CPU twin: the same functors in plain loops (naive ones for
// what cuBLASLt and cuDNN do).
#include <gtest/gtest.h>

#include <set>

#include "tests/executor/cpu/kernel_case.h"
#include "tests/executor/cuda/twin_kernel.h"

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
      // What has a kernel takes every case of its kind, but one product.
      EXPECT_TRUE(!cuda::has_kernel(of.signature.type) || of.name.starts_with("MatMul_4_broadcast"))
          << of.name << ": " << kernel.error().context;
      continue;
    }
    ++tried;
    const auto twin = testing::twin_of(*std::move(kernel));
    const KernelRun first = testing::run_kernel(*twin, of, kNaNs),
                    again = testing::run_kernel(*twin, of, kOther);
    EXPECT_EQ(first.complaint + again.complaint, "") << of.name;
    EXPECT_EQ(testing::difference(of, first.outputs), "") << of.name;
    EXPECT_EQ(first.outputs, again.outputs) << of.name << ": the same bytes in gave other bytes out";
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

TEST(TwinParity, WhatLacksOperandsIsRefused) {
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

}  // namespace
}  // namespace emplace

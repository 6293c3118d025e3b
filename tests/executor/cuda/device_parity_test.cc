// Goal: kernels compute on a GPU what PyTorch computes. Method: the cases of tests/fixtures/kernels on the
// device; skipped where there is none.
#include <gtest/gtest.h>

#include "tests/executor/cpu/kernel_case.h"
#include "tests/executor/cuda/gpu/device_kernel.h"

namespace emplace {
namespace {

TEST(DeviceParity, EveryCaseAgreesWithPyTorch) {
  if (const auto there = cuda::check_available(cuda::real_api()); !there)
    GTEST_SKIP() << there.error().context;
  cuda::Session session{cuda::real_api()};
  const auto devices =
      DeviceSet::make({{"gpu:0", *find_profile("h200"), std::int64_t{1} << 28, ""}}, Link{1e9, 0});
  auto group = cuda::DeviceGroup::make(session, *devices, 1);
  ASSERT_TRUE(group) << group.error().context;
  for (testing::KernelCase of : testing::kernel_cases()) {
    auto kernel = cuda::make_kernel(of.signature);
    if (!kernel) continue;
    const std::string& type = of.signature.type;
    const bool tensor_cores = type.find("mm") != std::string::npos || type.find("onv") != std::string::npos ||
                              type == "MatMul" || type == "Gemm";
    of.tolerance = std::max(of.tolerance, tensor_cores ? 3e-3 : 2e-5);  // TF32 has 10 bits.
    std::string failure;
    const auto on = gpu_check::on_device(*std::move(kernel), of.signature, session, (**group)[0], failure);
    const auto run = testing::run_kernel(*on, of, std::byte{0xff});
    EXPECT_EQ(failure + run.complaint + testing::difference(of, run.outputs), "") << of.name;
    ASSERT_FALSE(session.poisoned()) << of.name;
  }
}

}  // namespace
}  // namespace emplace

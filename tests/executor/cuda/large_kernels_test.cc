// Goal: at the sizes of real networks, where reductions take two launches and grids loop, a GPU kernel's
// index arithmetic computes what the CPU's kernel computes. Method: random signatures of up to a million
// elements through the twins, which run the device's functors, and through the CPU's kernels.
// EMPLACE_LARGE_KERNELS=50000000 raises the size, EMPLACE_SEEDS the number.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "executor/cuda/kernels/kernel.h"
#include "tests/executor/cuda/random_signatures.h"

namespace emplace {
namespace {

std::int64_t number(const char* variable, std::int64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

TEST(LargeKernels, TwinsAgreeWithTheCpuKernels) {
  const std::int64_t most = number("EMPLACE_LARGE_KERNELS", 1'000'000);
  const std::int64_t seeds = number("EMPLACE_SEEDS", 60);
  std::set<std::string> types;
  for (std::int64_t seed = 0; seed < seeds; ++seed) {
    Rng rng{static_cast<std::uint64_t>(seed), Purpose::kTest};
    testing::KernelCase of = testing::random_case(rng, most);
    auto own = cuda::make_kernel(of.signature);
    ASSERT_TRUE(own) << "seed " << seed << ": " << own.error().context;
    auto cpu = cpu::make_kernel(of.signature);
    ASSERT_TRUE(cpu) << "seed " << seed << ": " << cpu.error().context;
    for (const Operand& out : of.signature.outputs) {
      std::int64_t count = 1;
      for (const std::int64_t size : out.shape) count *= size;
      of.outputs.emplace_back(static_cast<std::size_t>(count * element_bytes(out.dtype)));
    }
    const auto expected = testing::run_kernel(**cpu, of, std::byte{0});
    of.outputs = expected.outputs;
    const auto twin = *std::move(own);
    const auto got = testing::run_kernel(*twin, of, std::byte{0xff});
    ASSERT_EQ(expected.complaint + got.complaint + testing::difference(of, got.outputs), "")
        << "seed " << seed << ": " << of.name;
    types.insert(of.signature.type);
  }
  EXPECT_GT(types.size(), std::min<std::size_t>(12, static_cast<std::size_t>(seeds) / 5));
}

}  // namespace
}  // namespace emplace

// Goal: a machine without a GPU is told so in one line, and nothing is called beyond that. Method: the real
// library.
#include "executor/cuda/logical_device.h"

#include <gtest/gtest.h>

namespace emplace::cuda {
namespace {

TEST(DeviceGroup, AMachineWithoutAGpuIsToldSo) {
  const auto there = check_available(real_api());
  if (there) GTEST_SKIP() << "there is a CUDA device here";
  EXPECT_EQ(there.error().code, Errc::kUnsupported);
  EXPECT_TRUE(there.error().context.starts_with("no CUDA device: ")) << there.error().context;
  Session session{real_api()};
  const auto devices = DeviceSet::make({{"gpu:0", *find_profile("h200"), 1 << 20, ""}}, Link{1e9, 0});
  ASSERT_TRUE(devices);
  const auto group = DeviceGroup::make(session, *devices);
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().context, there.error().context);
  EXPECT_FALSE(session.poisoned());
}

}  // namespace
}  // namespace emplace::cuda

// Goal: a machine without a GPU gets one line, and no further call is made; on a machine with GPUs, devices
// get the links, multiprocessors and memory that the machine has. Method: the real library; functions that
// record.
#include "executor/cuda/device/logical_device.h"

#include <gtest/gtest.h>

#include "executor/cuda/device/partition.h"
#include "executor/cuda/device/self_test.h"
#include "tests/executor/cuda/recording_api.h"
#include "tests/support/sample_graphs.h"

namespace emplace::cuda {
namespace {

TEST(DeviceGroup, ReportsAMachineWithoutAGpu) {
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

using testing::RecordingApi;

TEST(DeviceGroup, AcceptsPeerAccessThatIsEnabledAlready) {
  RecordingApi recording{2};
  Session session{recording.api()};
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  auto first = DeviceGroup::make(session, devices);
  ASSERT_TRUE(first) << first.error().context;
  auto second = DeviceGroup::make(session, devices);  // It is made in the same contexts.
  ASSERT_TRUE(second) << second.error().context;
  EXPECT_TRUE((*second)->is_direct(0, 1));
  EXPECT_EQ(recording.api().runtime.PeekAtLastError(), cudaSuccess) << "a later call would report it";
  EXPECT_EQ(recording.complaint(), "");
}

TEST(DeviceGroup, EnablesPeerAccessInEveryGreenContext) {
  RecordingApi recording{2};
  Session session{recording.api()};
  const auto group = DeviceGroup::make(session, testing::sample_devices(4, false, 1 << 20));
  ASSERT_TRUE(group) << group.error().context;
  EXPECT_EQ(recording.peers().size(), 4u) << "one context each, one peer each";
}

TEST(DeviceGroup, ShapedLinkNeedsADirectOne) {
  const DeviceSet shaped =
      testing::sample_devices(2, false, 1 << 20, {.bytes_per_s = 1e9, .latency_s = 1e-6, .shaped = true});
  RecordingApi recording{2};
  recording.cut_peers();
  Session session{recording.api()};
  const auto refused = DeviceGroup::make(session, shaped);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnsupported);
  EXPECT_EQ(
      refused.error().context,
      "gpu:0 and gpu:1: GPUs without a direct link cannot have a `shaped` one; remove `shaped` from the "
      "device file");
  EXPECT_EQ(recording.held(), 0u);
  const auto on_one = DeviceGroup::make(session, shaped, 1);
  ASSERT_TRUE(on_one) << on_one.error().context;
  EXPECT_TRUE((*on_one)->is_direct(0, 1) && (*on_one)->is_shaped(0, 1));
  EXPECT_FALSE((*on_one)->has_staged_links());
}

TEST(DeviceGroup, SelfTestUsesTheAvailableDevices) {
  for (const int gpus : {1, 2}) {
    RecordingApi recording{gpus, true};
    Session session{recording.api()};
    const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
    auto group = DeviceGroup::make(session, devices);
    ASSERT_TRUE(group) << group.error().context;
    const std::size_t held = recording.held();
    const auto tested = self_test(session, **group);
    ASSERT_FALSE(tested) << "nothing was computed";
    EXPECT_TRUE(tested.error().context.starts_with("self-test: wrong sum")) << tested.error().context;
    EXPECT_EQ(recording.held(), held) << "it kept a resource";
    EXPECT_EQ(recording.complaint(), "");
  }
}

TEST(DeviceGroup, DeviceWithoutAMemorySizeGetsTheFreeMemory) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  const Profile h200 = *find_profile("h200");
  const auto group_of = [&](std::int64_t second, std::size_t free, std::vector<std::int64_t>& bytes) {
    RecordingApi recording{1};
    recording.set_free(free);
    Session session{recording.api()};
    const auto devices =
        DeviceSet::make({{"gpu:0", h200, h200.memory_bytes, ""}, {"gpu:1", h200, second, ""}}, Link{1e9, 0});
    auto group = DeviceGroup::make(session, *devices);
    if (!group) return group.error().context;
    for (std::size_t d = 0; d < 2; ++d) bytes.push_back((**group)[d].bytes());
    return std::string{};
  };
  std::vector<std::int64_t> bytes;
  EXPECT_EQ(group_of(h200.memory_bytes, 139 * kGiB, bytes), "");
  EXPECT_EQ(bytes, (std::vector<std::int64_t>{69 * kGiB, 69 * kGiB}));
  bytes.clear();
  EXPECT_EQ(group_of(16 * kGiB, 139 * kGiB, bytes), "");
  EXPECT_EQ(bytes, (std::vector<std::int64_t>{122 * kGiB, 16 * kGiB}));
  EXPECT_TRUE(group_of(139 * kGiB, 139 * kGiB, bytes).starts_with("GPU 0 has 139"));
}

TEST(Partition, TriesSmallerGroupsBeforeItGivesUp) {
  RecordingApi recording{1};
  recording.set_largest_group(48);
  Session session{recording.api()};
  const auto parts = partition_gpu(session, 0, 2);
  ASSERT_TRUE(parts) << parts.error().context;
  EXPECT_EQ((*parts)[1].processors, 48);
  recording.set_largest_group(7);
  const auto none = partition_gpu(session, 0, 2);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::kUnsupported);
}

TEST(Partition, AcceptsAnUnsupportedResource) {
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  for (const CUresult status :
       {CUDA_ERROR_INVALID_RESOURCE_TYPE, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION}) {
    RecordingApi recording{1};
    recording.refuse_split(status);
    Session session{recording.api()};
    const auto group = DeviceGroup::make(session, devices);
    ASSERT_TRUE(group) << group.error().context;
    EXPECT_EQ((*group)->isolation(), Isolation::kNone);
    EXPECT_TRUE((*group)->why_not_isolated().starts_with("cuDevSmResourceSplitByCount: "))
        << (*group)->why_not_isolated();
  }
}

}  // namespace
}  // namespace emplace::cuda

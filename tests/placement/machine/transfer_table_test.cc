// Goal: the time of a transfer is rounded in one way, and everything that uses it means the same time.
// Method: links whose times are exact in binary, a two-op graph in the simulator, and links at the edge of
// what a machine may have.
#include "placement/machine/transfer_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "executor/sim/simulator.h"
#include "placement/bounds/device_kinds.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

constexpr DeviceId kA{0}, kB{1}, kC{2};
constexpr std::int64_t kRoomy = std::int64_t{1} << 40;

/// Devices with a link of its own in each direction, `links` [devices, devices].
DeviceSet machine_with(std::size_t devices, std::vector<Link> links) {
  const DeviceSet plain = testing::sample_devices(devices, false, kRoomy);
  auto machine = DeviceSet::make({plain.devices().begin(), plain.devices().end()}, std::move(links));
  EXPECT_TRUE(machine.ok());
  return *std::move(machine);
}

TransferTable table_of(const Link& link) {
  return TransferTable{testing::sample_devices(2, false, kRoomy, link)};
}

TEST(TransferTable, ATransferTakesTheLatencyAndTheTimeOfItsBytes) {
  const TransferTable table = table_of({.bytes_per_s = 1e9, .latency_s = 1e-6});
  EXPECT_EQ(table.ns(kA, kB, 0), 1'000);
  EXPECT_EQ(table.ns(kA, kB, 5'000), 6'000);
  EXPECT_DOUBLE_EQ(table.time(kA, kB, 5'000).seconds(), 6e-6);
  EXPECT_EQ(table.line(kA, kB), (TransferLine{1e-6 * 1e9, 1}));
  EXPECT_EQ(table.latency_s(kA, kB), 1e-6);
  EXPECT_EQ(table.s_per_byte(kA, kB), 1 / 1e9);
}

TEST(TransferTable, RoundsToTheNearestNanosecondAndHalvesUp) {
  const TransferTable table = table_of({.bytes_per_s = 4e9, .latency_s = 0});  // 0.25 ns per byte.
  const std::vector<std::int64_t> nearest{0, 0, 1, 1, 1, 1, 2, 2, 2}, down{0, 0, 0, 0, 1, 1, 1, 1, 2};
  for (std::int64_t bytes = 0; bytes < 9; ++bytes) {
    EXPECT_EQ(table.ns(kA, kB, bytes), nearest[static_cast<std::size_t>(bytes)]) << bytes << " bytes";
    EXPECT_EQ(table.floor_ns(kA, kB, static_cast<double>(bytes)), down[static_cast<std::size_t>(bytes)])
        << bytes << " bytes";
  }
}

TEST(TransferTable, EachDirectionHasItsOwnLinkAndADeviceReachesItselfInNoTime) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Link itself{.bytes_per_s = kNan, .latency_s = kNan};  // The diagonal of the links is unspecified.
  const Link there{.bytes_per_s = 1e9, .latency_s = 1e-6}, back{.bytes_per_s = 5e8, .latency_s = 3e-6};
  const TransferTable table{machine_with(2, {itself, there, back, itself})};
  EXPECT_EQ(table.ns(kA, kB, 1'000), 2'000);
  EXPECT_EQ(table.ns(kB, kA, 1'000), 5'000);
  EXPECT_EQ(table.ns(kA, kA, 1'000), 0);
  EXPECT_EQ(table.floor_ns(kB, kB, 1'000), 0);
  EXPECT_EQ(table.time(kB, kB, 1'000).seconds(), 0);
  EXPECT_EQ(table.s_per_byte(kA, kA), 0);
  EXPECT_EQ(table.line(kA, kA), TransferLine{});
}

TEST(TransferTable, TheMeanLineCountsEveryPairInBothDirections) {
  std::vector<Link> links(9, Link{.bytes_per_s = 1e9, .latency_s = 2e-6});
  links[1] = {.bytes_per_s = 5e8, .latency_s = 8e-6};  // From A to B.
  const TransferTable table{machine_with(3, links)};
  const std::vector<DeviceId> all{kA, kB, kC}, without_a{kB, kC}, alone{kA};
  EXPECT_DOUBLE_EQ(table.mean_line(all).latency_ns, 3'000);
  EXPECT_DOUBLE_EQ(table.mean_line(all).ns_per_byte, 7.0 / 6);
  EXPECT_DOUBLE_EQ(table.mean_line(without_a).latency_ns, 2'000);
  EXPECT_EQ(table.mean_line(alone), TransferLine{});
  EXPECT_EQ(table.mean_line({}), TransferLine{});
}

TEST(TransferTable, AStepOfTwoOpsTakesTheirTimesAndTheTransfer) {
  Rng rng{1, Purpose::kTest};
  for (int round = 0; round < 200; ++round) {
    const std::int64_t bytes = 1 + static_cast<std::int64_t>(rng.below(1 << 30));
    const OpGraph graph = testing::sample_graph({{"a", {}, {bytes}, 3}, {"b", {{0, 0}}, {1}, 4}});
    const DeviceSet devices =
        testing::sample_devices(2, false, kRoomy,
                                {.bytes_per_s = std::pow(10, 6 + 6 * rng.uniform_double()),
                                 .latency_s = 1e-5 * rng.uniform_double()});
    Measurement step;
    ASSERT_TRUE((Simulator{graph, devices}.measure(Placement{kA, kB}, step).ok()));
    const std::int64_t ns = TransferTable{devices}.ns(kA, kB, bytes);
    EXPECT_EQ(std::llround(step.step_time_s * 1e9), 7'000 + ns) << bytes << " bytes";
  }
}

// A bound must not be rounded above the time that it bounds.
TEST(TransferTable, TheFastestLineOfTwoKindsIsNeverSlowerThanALinkBetweenThem) {
  Rng rng{2, Purpose::kTest};
  const OpGraph graph = testing::sample_graph({{"a"}});
  for (int round = 0; round < 50; ++round) {
    std::vector<Link> links(16);
    for (Link& link : links)
      link = {.bytes_per_s = 1e9 * (1 + rng.uniform_double()), .latency_s = 1e-8 * rng.uniform_double()};
    const DeviceSet devices = machine_with(4, links);
    const TransferTable table{devices};
    DeviceMask first, second;
    first.set(0).set(1);
    second.set(2).set(3);
    const DeviceKinds kinds = device_kinds(devices, {first, second}, CostTable{graph, devices});
    ASSERT_EQ(kinds.size(), 2u);
    for (std::int64_t bytes = 0; bytes < 40; ++bytes) {
      for (std::size_t s = 0; s < 4; ++s) {
        for (std::size_t t = 0; t < 4; ++t) {
          if (s == t) continue;
          EXPECT_LE(kinds.transfer_ns(s / 2, t / 2, bytes),
                    table.ns(static_cast<DeviceId>(s), static_cast<DeviceId>(t), bytes));
        }
      }
    }
  }
}

TEST(TransferTable, ALinkSlowerThanAnyStepTakesTheLongestTime) {
  constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max();
  const Link never{.bytes_per_s = 1e9, .latency_s = std::numeric_limits<double>::max()};
  const Link crawling{.bytes_per_s = std::numeric_limits<double>::denorm_min(), .latency_s = 0};
  for (const Link& link : {never, crawling}) {
    const TransferTable table = table_of(link);
    for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, kMostBytes}) {
      EXPECT_EQ(table.ns(kA, kB, bytes), kNeverNs);
      EXPECT_EQ(table.floor_ns(kA, kB, static_cast<double>(bytes)), kNeverNs);
    }
  }
  const TransferTable fast = table_of({.bytes_per_s = std::numeric_limits<double>::max(), .latency_s = 0});
  EXPECT_EQ(fast.ns(kA, kB, kMostBytes), 0);
  const TransferTable usual = table_of({.bytes_per_s = 1e9, .latency_s = 0});
  EXPECT_EQ(usual.ns(kA, kB, kMostBytes), kNeverNs);
  EXPECT_EQ(usual.ns(kA, kB, kNeverNs / 2), kNeverNs / 2);
}

TEST(TransferTable, HoldsTheLargestMachine) {
  const TransferTable table{testing::sample_devices(kMaxDevices, false, kRoomy)};
  ASSERT_EQ(table.num_devices(), kMaxDevices);
  EXPECT_EQ(table.ns(DeviceId{255}, DeviceId{254}, 1'000), 2'000);
  EXPECT_EQ(table.ns(DeviceId{255}, DeviceId{255}, 1'000), 0);
}

}  // namespace
}  // namespace emplace

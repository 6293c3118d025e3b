// Goal: devices are in one class exactly if what the caller names is equal.
// Method: machines that differ in one thing at a time; then random ones, where exchanging two devices of a
// class must not change any simulated step.
#include "placement/machine/device_classes.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "executor/sim/simulator.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using Memory = DeviceLikeness::Memory;
using Times = DeviceLikeness::Times;
using Classes = std::vector<std::size_t>;

constexpr std::int64_t kRoom = std::int64_t{1} << 34;
constexpr Link kUsual{.bytes_per_s = 1e9, .latency_s = 1e-6}, kFast{.bytes_per_s = 8e9, .latency_s = 1e-6};

/// Each op takes 1 us on any GPU.
OpGraph plain_graph() { return testing::sample_graph({{"a", {}, {4}}, {"b", {{0, 0}}, {4}}}); }

Classes classes_of(const DeviceSet& devices, const DeviceLikeness& likeness) {
  const OpGraph graph = plain_graph();
  const DeviceClasses classes{devices, CostTable{graph, devices}, likeness};
  Classes of;
  for (std::size_t d = 0; d < devices.size(); ++d) of.push_back(classes.of(static_cast<DeviceId>(d)));
  return of;
}

/// `gpus` devices after one change each.
template <class Change>
DeviceSet changed(std::size_t gpus, Change change, std::vector<Link> links = {}) {
  const DeviceSet plain = testing::sample_devices(gpus, false, kRoom);
  std::vector<Device> devices{plain.devices().begin(), plain.devices().end()};
  for (std::size_t d = 0; d < gpus; ++d) change(d, devices[d]);
  links.resize(gpus * gpus, kUsual);
  return *DeviceSet::make(std::move(devices), std::move(links));
}

/// `gpus` devices with usual links but for those of `change`, a function of source and target.
template <class Change>
DeviceSet linked(std::size_t gpus, Change change) {
  std::vector<Link> links;
  for (std::size_t s = 0; s < gpus; ++s)
    for (std::size_t t = 0; t < gpus; ++t) links.push_back(change(s, t));
  return changed(
      gpus, [](std::size_t, Device&) {}, std::move(links));
}

TEST(DeviceClasses, AreNumberedByTheirFirstDevices) {
  const DeviceSet devices = testing::sample_devices(3, true, kRoom);
  EXPECT_EQ(classes_of(devices, {}), (Classes{0, 1, 1, 1})) << "the CPU comes first";
  const OpGraph graph = plain_graph();
  const DeviceClasses classes{devices, CostTable{graph, devices}, {}};
  EXPECT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes.num_devices(), 4u);
  EXPECT_EQ(classes.first(1), DeviceId{1});
  EXPECT_TRUE(classes.are_alike(DeviceId{1}, DeviceId{3}));
  EXPECT_FALSE(classes.are_alike(DeviceId{0}, DeviceId{3}));
}

TEST(DeviceClasses, ProfilesOrTheTimesOfTheOpsMustBeEqual) {
  const DeviceSet devices = changed(3, [](std::size_t d, Device& device) {
    if (d == 1) device.profile.name = "another";
  });
  EXPECT_EQ(classes_of(devices, {.times = Times::kProfile}), (Classes{0, 1, 0}));
  EXPECT_EQ(classes_of(devices, {.times = Times::kOps}), (Classes{0, 0, 0}))
      << "the graph has one time for all GPUs";
}

TEST(DeviceClasses, MemoryIsComparedInBytesOrAsPoliciesSeeIt) {
  const DeviceSet devices = changed(3, [](std::size_t d, Device& device) {
    device.memory_bytes += d == 1 ? 1 : d == 2 ? kRoom : 0;
  });
  EXPECT_EQ(classes_of(devices, {}), (Classes{0, 0, 0}));
  EXPECT_EQ(classes_of(devices, {.memory = Memory::kBytes}), (Classes{0, 1, 2}));
  EXPECT_EQ(classes_of(devices, {.memory = Memory::kFloat}), (Classes{0, 0, 1}));
}

TEST(DeviceClasses, HostsSeparateDevicesIfTheyCount) {
  const DeviceSet devices =
      changed(4, [](std::size_t d, Device& device) { device.host = d % 2 == 0 ? "left" : "right"; });
  EXPECT_EQ(classes_of(devices, {}), (Classes{0, 0, 0, 0}));
  EXPECT_EQ(classes_of(devices, {.host = true}), (Classes{0, 1, 0, 1}));
}

TEST(DeviceClasses, LinksMustBeEqualAfterTheExchange) {
  // Two islands: inside one the link is fast, so that only devices of one island may be exchanged.
  const DeviceSet islands =
      linked(4, [](std::size_t s, std::size_t t) { return s / 2 == t / 2 ? kFast : kUsual; });
  EXPECT_EQ(classes_of(islands, {}), (Classes{0, 0, 0, 0}));
  EXPECT_EQ(classes_of(islands, {.links = true}), (Classes{0, 0, 1, 1}));
  const DeviceSet towards_the_first =
      linked(3, [](std::size_t, std::size_t t) { return t == 0 ? kFast : kUsual; });
  EXPECT_EQ(classes_of(towards_the_first, {.links = true}), (Classes{0, 1, 1}));
  const DeviceSet one_way = linked(2, [](std::size_t s, std::size_t) { return s == 0 ? kFast : kUsual; });
  EXPECT_EQ(classes_of(one_way, {.links = true}), (Classes{0, 1}));
  const DeviceSet alone = linked(1, [](std::size_t, std::size_t) { return Link{}; });
  EXPECT_EQ(classes_of(alone, {.links = true}), (Classes{0}));
}

TEST(DeviceClasses, EnginesAndSharedLinksSeparateDevicesIfTheyCount) {
  const DeviceSet plain = testing::sample_devices(4, false, kRoom);
  const DeviceSet several = *plain.with_engines({1, 2, 1, kUnlimited});
  EXPECT_EQ(classes_of(several, {.links = true}), (Classes{0, 0, 0, 0}));
  EXPECT_EQ(classes_of(several, {.engines = true}), (Classes{0, 1, 0, 2}));
  const DeviceSet shared = *plain.with_shared({{"switch", {DeviceId{3}, DeviceId{1}}, 1}});
  EXPECT_EQ(classes_of(shared, {.engines = true}), (Classes{0, 1, 0, 1}));
}

TEST(DeviceClasses, AChoiceContainsAllDevicesOfAClassOrNone) {
  const DeviceSet devices = testing::sample_devices(4, false, kRoom);
  DeviceMask low, even;
  low.set(0).set(1);
  even.set(0).set(2);
  const std::vector<DeviceMask> none, all(3, DeviceMask{}.set()), one{low, low}, two{low, even, low};
  EXPECT_EQ(classes_of(devices, {.choices = none}), (Classes{0, 0, 0, 0}));
  EXPECT_EQ(classes_of(devices, {.choices = all}), (Classes{0, 0, 0, 0}));
  EXPECT_EQ(classes_of(devices, {.choices = one}), (Classes{0, 0, 1, 1}));
  EXPECT_EQ(classes_of(devices, {.choices = two}), (Classes{0, 1, 2, 3}));
}

TEST(DeviceClasses, ExchangingTwoDevicesOfAClassChangesNoStep) {
  Rng rng{1, Purpose::kTest};
  std::size_t exchanged = 0;
  for (int round = 0; round < 200; ++round) {
    const std::size_t gpus = 2 + rng.below(5);
    std::vector<std::size_t> island(gpus);
    for (std::size_t& each : island) each = rng.below(2);
    const DeviceSet devices = linked(gpus, [&](std::size_t s, std::size_t t) {
      return Link{.bytes_per_s = island[s] == island[t] ? 1e9 : 1e8,
                  .latency_s = island[s] < island[t] ? 1e-6 : 2e-6};
    });
    const OpGraph graph = testing::random_graph(rng, 20);
    const DeviceClasses classes{
        devices, CostTable{graph, devices}, {.memory = Memory::kBytes, .links = true, .engines = true}};
    Simulator simulator{graph, devices};
    const Placement placement = testing::random_placement(rng, graph.num_ops(), gpus);
    for (std::size_t a = 0; a < gpus; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const auto first = static_cast<DeviceId>(a), second = static_cast<DeviceId>(b);
        if (!classes.are_alike(first, second)) continue;
        Placement other = placement;
        for (DeviceId& device : other) device = device == first ? second : device == second ? first : device;
        Measurement before, after;
        ASSERT_TRUE(simulator.measure(placement, before).ok() && simulator.measure(other, after).ok());
        EXPECT_EQ(before.step_time_s, after.step_time_s) << "round " << round;
        ++exchanged;
      }
    }
  }
  EXPECT_GT(exchanged, 200u);
}

TEST(DeviceClasses, HoldTheLargestMachine) {
  const DeviceSet devices = changed(
      kMaxDevices, [](std::size_t d, Device& device) { device.memory_bytes += d % 2 == 0 ? 0 : kRoom; });
  const Classes of = classes_of(devices, {.memory = Memory::kBytes, .host = true, .links = true});
  for (std::size_t d = 0; d < of.size(); ++d) EXPECT_EQ(of[d], d % 2) << "device " << d;
}

}  // namespace
}  // namespace emplace

// Goal: list schedulers use devices in parallel, account for memory like the simulator, and avoid the CPU
// while GPUs have room. Method: graphs whose best schedule is known, the parts against brute force, and the
// shipped net.

#include "solver/list/list_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "placement/idle_gaps.h"
#include "solver/list/favourite_children.h"
#include "solver/list/memory_history.h"
#include "solver/methods.h"
#include "tests/solver/world.h"

namespace emplace {
namespace {

using testing::kPlenty;
using testing::random_graph;
using testing::sample_devices;
using testing::sample_graph;
using testing::SampleOp;
using testing::World;

const std::vector<const Method*>& list_methods() {
  static const std::vector<const Method*> methods{*find_method("heft"), *find_method("m-etf"),
                                                  *find_method("m-sct")};
  return methods;
}

/// `chains` independent chains of ten ops of 10 us (30 on the CPU), each op of which keeps `state` bytes.
OpGraph chains(std::uint32_t count, std::int64_t state = 0) {
  OpGraphBuilder builder;
  for (std::uint32_t i = 0; i < 10 * count; ++i) {
    OpSpec op;
    op.name = "op" + std::to_string(i);
    op.type = "Work";
    op.param_bytes = state;
    if (i >= count) op.inputs = {{i - count, 0}};
    op.outputs = {{DType::kF32, {1}}};
    op.measured_us = {{"gpu", 10.0}, {"cpu", 30.0}};
    builder.add(std::move(op));
  }
  return std::move(builder).build().value();
}

TEST(ListMethods, PutIndependentChainsOnDevicesOfTheirOwn) {
  for (const Method* method : list_methods()) {
    World world{chains(2), sample_devices(2, /*cpu=*/false, kPlenty)};
    EXPECT_NEAR(world.run(*method)->measurement.step_time_s, 100e-6, 1e-9) << method->name();
  }
}

TEST(ListMethods, GiveASlowDeviceOnlyWorkThatItEndsInTime) {
  // Three GPU chains to one of the CPU would be even; no chain may wait for one on the CPU.
  for (const Method* method : list_methods()) {
    World world{chains(4), sample_devices(1, /*cpu=*/true, kPlenty)};
    const Answer found = world.run(*method).value();
    EXPECT_LE(found.measurement.step_time_s, 331e-6) << method->name();
    EXPECT_GT(found.measurement.busy_s[0], 0) << method->name();
  }
}

TEST(ListMethods, DivideStateThatNoDeviceHoldsAndLeaveTheCpuIdle) {
  // One chain: a second GPU gains no time and is needed only for memory. 1,000 bytes of state, 520 per GPU.
  for (const Method* method : all_methods()) {
    if (method->name() != "m-topo" &&
        std::find_if(list_methods().begin(), list_methods().end(),
                     [&](const Method* m) { return m->name() == method->name(); }) == list_methods().end())
      continue;
    World world{chains(1, 100), sample_devices(2, /*cpu=*/true, 520)};
    const Answer found = world.run(*method).value();
    EXPECT_TRUE(found.measurement.valid) << method->name();
    EXPECT_EQ(found.measurement.busy_s[0], 0) << method->name();
    EXPECT_LT(found.measurement.step_time_s, 105e-6) << method->name();
  }
}

TEST(ListMethods, UseTheCpuForStateThatNoGpuHolds) {
  for (const Method* method : list_methods()) {
    OpGraph graph = chains(1, 100);
    std::vector<Device> devices{{"cpu:0", *find_profile("haswell18"), kPlenty, ""},
                                {"gpu:0", *find_profile("k40"), 710, ""}};
    World world{std::move(graph), *DeviceSet::make(std::move(devices), Link{1e9, 1e-6})};
    const Answer found = world.run(*method).value();
    EXPECT_TRUE(found.measurement.valid) << method->name();
    EXPECT_NEAR(found.measurement.busy_s[0], 90e-6, 1e-9) << method->name();  // Three ops and no more.
  }
}

TEST(ListMethods, ObeyConstraintsUnderTightMemoryOnRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Rng rng{seed, Purpose::kTest, 5};
    World world{random_graph(rng, 60),
                sample_devices(1 + seed % 3, seed % 2 == 0, 8'000 + 3'000 * (seed % 5))};
    for (const Method* method : list_methods()) {
      const Answer found = world.run(*method, seed).value();
      EXPECT_TRUE(world.constraints.check(world.graph, world.devices, found.placement).ok())
          << method->name();
    }
  }
  World restricted{testing::restricted_graph(), sample_devices(2, true, 40)};
  for (const Method* method : list_methods()) EXPECT_TRUE(restricted.run(*method).ok()) << method->name();
}

TEST(IdleGaps, AreFilledOnceAndFoundFirst) {
  IdleGaps gaps{1};
  gaps.fill(100, 200);
  gaps.fill(300, 400);
  EXPECT_EQ(gaps.start(0, 100), 0);
  EXPECT_EQ(gaps.start(0, 101), 400);
  EXPECT_EQ(gaps.start(150, 100), 200);
  gaps.fill(220, 260);
  EXPECT_EQ(gaps.start(150, 30), 260);
  EXPECT_EQ(gaps.start(150, 20), 200);
  EXPECT_EQ(gaps.start(500, 7), 500);
}

TEST(IdleGaps, NeverOverlapAfterAnyFills) {
  Rng rng{3, Purpose::kTest};
  IdleGaps gaps{1};
  std::vector<bool> busy(20'000, false);
  for (int i = 0; i < 500; ++i) {
    const auto ready = static_cast<std::int64_t>(rng.below(4000)),
               cost = static_cast<std::int64_t>(1 + rng.below(20));
    const std::int64_t begin = gaps.start(ready, cost);
    ASSERT_GE(begin, ready);
    std::int64_t first = ready;
    for (std::int64_t length = 0; length < cost; ++length) {
      if (busy[static_cast<std::size_t>(first + length)]) first += length + 1, length = -1;
    }
    ASSERT_EQ(begin, first);
    gaps.fill(begin, begin + cost);
    for (std::int64_t t = begin; t < begin + cost; ++t) busy[static_cast<std::size_t>(t)] = true;
  }
}

TEST(MemoryHistory, EqualsBruteForceWhenEachOpIsASpan) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng{seed, Purpose::kTest, 6};
    constexpr std::int64_t kSteps = 200;
    MemoryHistory memory{1, 1};
    std::vector<std::int64_t> level(3 * kSteps, 0);
    for (std::int64_t now = 1; now < kSteps; ++now) {
      memory.tick(now);
      memory.level(0, now);
      const auto bytes = static_cast<std::int64_t>(1 + rng.below(100));
      const std::int64_t from = now - static_cast<std::int64_t>(rng.below(static_cast<std::uint32_t>(now)));
      const std::int64_t until = from + 1 + static_cast<std::int64_t>(rng.below(kSteps));
      memory.take(0, bytes, from);
      memory.give_back(0, bytes, until);
      for (std::int64_t t = from; t < until; ++t) level[static_cast<std::size_t>(t)] += bytes;
      ASSERT_EQ(memory.level(0, now), level[static_cast<std::size_t>(now)]);
      const std::int64_t since = static_cast<std::int64_t>(rng.below(static_cast<std::uint32_t>(now)));
      const std::int64_t peak = *std::max_element(level.begin() + since, level.begin() + now + 1);
      // Bytes that ended within a span count for the whole of it: the peak is never below the truth.
      ASSERT_GE(memory.peak_since(0, since), peak);
      ASSERT_LE(memory.peak_since(0, since), peak + 200);
    }
  }
}

TEST(FavouriteChildren, AreThoseOnTheLongestPath) {
  // a feeds b (short) and c (long): if w is small, c must not wait for its data.
  World world{sample_graph({{.name = "a", .output_bytes = {100'000}, .gpu_us = 10},
                            {.name = "b", .inputs = {{0, 0}}, .gpu_us = 10},
                            {.name = "c", .inputs = {{0, 0}}, .gpu_us = 500}}),
              sample_devices(2, false, kPlenty)};
  const ListTask task{world.problem()};
  const auto favourite = favourite_children(task).value();
  EXPECT_EQ(favourite[0], OpId{2});
  EXPECT_EQ(favourite[1], kNoOp);
}

TEST(FavouriteChildren, AreReadersOfOneParentOnly) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    World world{random_graph(seed, 80), sample_devices(2, true, kPlenty)};
    const ListTask task{world.problem()};
    for (const std::size_t window : {std::size_t{500}, std::size_t{16}}) {
      const auto favourite = favourite_children(task, window).value();
      std::set<OpId> seen;
      for (std::uint32_t i = 0; i < favourite.size(); ++i) {
        if (favourite[i] == kNoOp) continue;
        EXPECT_TRUE(seen.insert(favourite[i]).second);
        const auto reads = task.lowered.reads(favourite[i]);
        EXPECT_TRUE(std::any_of(reads.begin(), reads.end(),
                                [&](BufferId read) { return task.lowered.owner(read) == OpId{i}; }));
      }
    }
  }
}

TEST(PlacingUnits, KeepClassesWholeAndSplitGroupsWithoutACommonDevice) {
  OpGraphBuilder builder;
  const std::vector<std::vector<std::string>> allowed{{"gpu:0"}, {"gpu:1"}, {}, {"gpu:1"}};
  for (std::uint32_t i = 0; i < allowed.size(); ++i) {
    OpSpec op;
    op.name = "op" + std::to_string(i);
    op.type = "Work";
    op.group = i < 2 ? "torn" : "whole";
    op.outputs = {{DType::kF32, {1}}};
    op.allowed_devices = allowed[i];
    op.has_allowed_devices = !allowed[i].empty();
    builder.add(std::move(op));
  }
  World world{std::move(builder).build().value(), sample_devices(2, true, kPlenty)};
  const LoweredGraph lowered{world.graph};
  const PlacingUnits units = group_units(world.problem(), lowered, scope_groups(world.graph));
  EXPECT_NE(units.unit_of_op[0], units.unit_of_op[1]);
  EXPECT_EQ(units.unit_of_op[2], units.unit_of_op[3]);
  for (const DeviceMask& mask : units.allowed) EXPECT_TRUE(mask.any());
  EXPECT_EQ(units.allowed[units.unit_of_op[2]].count(), 1u);
}

TEST(PlacingUnits, CountLiveBytesOfEachMoment) {
  // The last op of a long chain reads a, so that a exists throughout; links of the chain only for a moment.
  std::vector<SampleOp> ops{{.name = "a", .output_bytes = {1000}}};
  for (std::uint32_t i = 1; i <= 200; ++i)
    ops.push_back(
        {.name = "op" + std::to_string(i), .inputs = {{i == 1 ? 0 : i - 1, 0}}, .output_bytes = {10}});
  ops.push_back({.name = "end", .inputs = {{200, 0}, {0, 0}}});
  World world{sample_graph(ops), sample_devices(2, true, kPlenty)};
  const LoweredGraph lowered{world.graph};
  PlacingUnits units = class_units(world.problem(), lowered);
  find_live_bytes(units, lowered);
  const std::size_t a = units.unit_of_op[0];
  for (std::size_t m = 0; m < PlacingUnits::kMoments; ++m) {
    EXPECT_EQ(units.live_bytes[a * PlacingUnits::kMoments + m], 1000);
    std::int64_t links = 0;
    for (std::uint32_t i = 1; i <= 200; ++i)
      links += units.live_bytes[units.unit_of_op[i] * PlacingUnits::kMoments + m];
    EXPECT_LE(links, 20);
    EXPECT_GE(links, 10);
  }
}

}  // namespace
}  // namespace emplace

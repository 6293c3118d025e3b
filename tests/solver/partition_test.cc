// Goal: partitioners get a graph of the relevant weights, work at its limits, and never split a class.
// Method: planted partitions, degenerate graphs, weights beyond their integers, random graphs.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "solver/methods.h"
#include "solver/partitioners/partition_graph.h"
#include "tests/solver/world.h"

namespace emplace {
namespace {

using testing::kPlenty;
using testing::random_graph;
using testing::sample_devices;
using testing::sample_graph;
using testing::SampleOp;
using testing::World;

std::vector<const Method*> partition_methods() {
  return {*find_method("scotch"), *find_method("mincut"), *find_method("mincut-cpu"), *find_method("metis")};
}

TEST(PartitionGraph, ContractsClassesAndOmitsViews) {
  World world{sample_graph({{.name = "w", .output_bytes = {100}, .type = "Parameter"},
                            {.name = "t", .inputs = {{0, 0}}, .output_bytes = {100}, .view = true},
                            {.name = "a", .inputs = {{1, 0}}, .output_bytes = {40}, .gpu_us = 5},
                            {.name = "b", .inputs = {{2, 0}, {1, 0}}, .output_bytes = {8}, .gpu_us = 7},
                            {.name = "update",
                             .inputs = {{3, 0}, {0, 0}},
                             .output_bytes = {100},
                             .gpu_us = 3,
                             .phase = Phase::kUpdate,
                             .colocate = OpId{0}}}),
              sample_devices(2, true, kPlenty)};
  const LoweredGraph lowered{world.graph};
  const PlacingUnits units = class_units(world.problem(), lowered);
  const PartitionGraph graph{world.problem(), lowered, units};
  ASSERT_EQ(graph.size(), 3u);  // The nodes are {w, update}, a and b.
  EXPECT_EQ((std::vector<double>{graph.work_ns().begin(), graph.work_ns().end()}),
            (std::vector<double>{3000, 5000, 7000}));
  EXPECT_EQ(graph.bytes()[0], 100);
  // w - a: 100, w - b: 100 there and 8 back, a - b: 40; both directions.
  EXPECT_EQ(std::accumulate(graph.edge_bytes().begin(), graph.edge_bytes().end(), 0.0), 2 * 248.0);
  EXPECT_EQ(graph.neighbours().size(), 6u);
  const Placement placement = graph.placement({1, 0, 0}, {DeviceId{1}, DeviceId{2}});
  EXPECT_EQ(placement[1], DeviceId{2});  // The view is with its base.
  EXPECT_EQ(placement[4], DeviceId{2});
}

TEST(PartitionGraph, ScalesWeightsToTheIntegersOfTheLibraries) {
  const std::vector<double> values{1e18, 0, 3e18, 1};
  const auto scaled_values = scaled(values, 1e9);
  EXPECT_EQ(scaled_values, (std::vector<std::int32_t>{250'000'000, 1, 750'000'000, 1}));
  const auto cut = scaled(values, 1e9, 0.5);  // No value is above half of the rest.
  EXPECT_NEAR(cut[2], 5e8, 10);
  EXPECT_NEAR(cut[0], 5e8, 10);
  EXPECT_EQ(scaled(std::vector<double>{0, 0}, 1e9), (std::vector<std::int32_t>{1, 1}));
}

TEST(PartitionMethods, CutAPlantedBridge) {
  // Two groups of twelve ops that exchange much, joined by one thin edge.
  std::vector<SampleOp> ops;
  for (std::uint32_t half = 0; half < 2; ++half) {
    for (std::uint32_t i = 0; i < 12; ++i) {
      SampleOp op{.name = std::to_string(half) + "." + std::to_string(i), .output_bytes = {1'000'000}};
      op.gpu_us = 2000;
      op.cpu_us = 1e5;
      for (std::uint32_t back = 1; back <= std::min<std::uint32_t>(i, 3); ++back)
        op.inputs.push_back({half * 12 + i - back, 0});
      if (half == 1 && i == 6) op.inputs.push_back({24, 0});
      ops.push_back(std::move(op));
    }
    if (half == 0) continue;
  }
  // The op before the thin edge, which the second half reads; its id must come first, so it has no inputs.
  ops.insert(ops.begin(), SampleOp{.name = "thin", .output_bytes = {4}, .gpu_us = 1, .cpu_us = 1});
  for (SampleOp& op : ops)
    for (EdgeSpec& edge : op.inputs) edge.op = edge.op == 24 ? 0 : edge.op + 1;
  World world{sample_graph(ops), sample_devices(2, true, kPlenty)};
  for (const Method* method : partition_methods()) {
    const Answer found = world.run(*method).value();
    for (std::uint32_t i = 2; i <= 12; ++i)
      EXPECT_EQ(found.placement[i], found.placement[1]) << method->name();
    for (std::uint32_t i = 14; i <= 24; ++i)
      EXPECT_EQ(found.placement[i], found.placement[13]) << method->name();
    EXPECT_NE(found.placement[1], found.placement[13]) << method->name();
  }
}

TEST(PartitionMethods, AcceptDegenerateGraphsAndMachines) {
  std::vector<SampleOp> row;  // There is no edge.
  for (int i = 0; i < 50; ++i) row.push_back({.name = "op" + std::to_string(i), .gpu_us = 10, .cpu_us = 100});
  std::vector<SampleOp> huge = row;
  huge[7].output_bytes = {std::int64_t{1} << 49};
  huge[7].gpu_us = 1e12;
  for (std::uint32_t i = 8; i < 50; ++i) huge[i].inputs = {{7, 0}};
  for (const auto& ops : {std::vector<SampleOp>{{.name = "alone"}}, row, huge}) {
    for (const std::size_t gpus : {1u, 2u, 8u}) {
      for (const bool cpu : {false, true}) {
        World world{sample_graph(ops), sample_devices(gpus, cpu, kPlenty)};
        for (const Method* method : partition_methods()) {
          ::testing::internal::CaptureStdout();
          const auto found = world.run(*method);
          // The libraries print nothing.
          EXPECT_EQ(::testing::internal::GetCapturedStdout(), "") << method->name();
          ASSERT_TRUE(found.ok()) << method->name();
          EXPECT_EQ(found->placement.size(), ops.size());
        }
      }
    }
  }
}

// "We use the same Scotch optimizer, but eliminate the CPU from the list of available devices."
//                                                                     Paper: ColocRL 2017, section 4.2
TEST(PartitionMethods, MinCutOmitsTheCpuEvenIfNothingFitsWithoutIt) {
  std::vector<SampleOp> ops;
  for (int i = 0; i < 40; ++i)
    ops.push_back({.name = "w" + std::to_string(i), .output_bytes = {1'000'000}, .type = "Parameter"});
  for (std::uint32_t i = 0; i < 40; ++i) {
    ops.push_back({.name = "op" + std::to_string(i),
                   .inputs = {{i, 0}},
                   .output_bytes = {8},
                   .gpu_us = 10,
                   .cpu_us = 12});
  }
  const auto on_cpu = [](const Placement& placement) {
    return std::count(placement.begin(), placement.end(), DeviceId{0});
  };
  const Method &mincut = **find_method("mincut"), &mincut_cpu = **find_method("mincut-cpu");
  World roomy{sample_graph(ops), sample_devices(2, true, kPlenty)};
  EXPECT_EQ(on_cpu(roomy.run(mincut)->placement), 0);
  World tight{sample_graph(ops), sample_devices(2, true, 16'000'000)};
  const auto without = tight.run(mincut), with = tight.run(mincut_cpu);
  ASSERT_TRUE(without.ok() && with.ok());
  EXPECT_EQ(on_cpu(without->placement), 0);
  EXPECT_FALSE(without->measurement.valid);
  EXPECT_GT(on_cpu(with->placement), 0);
  EXPECT_TRUE(with->measurement.valid);
  EXPECT_EQ(mincut.name(), "mincut");
  EXPECT_EQ((*find_compared_method("mincut-cpu"))->name(), "mincut-cpu");
}

TEST(PartitionMethods, BalanceARowByTheSpeedOfTheDevices) {
  std::vector<SampleOp> row;
  for (int i = 0; i < 200; ++i) row.push_back({.name = "op" + std::to_string(i), .gpu_us = 10, .cpu_us = 30});
  World world{sample_graph(row), sample_devices(1, true, kPlenty)};
  for (const Method* method : partition_methods()) {
    // 150 ops on the GPU and 50 on the CPU take 1500 us; mincut has only the GPU.
    const double limit_s = method->name() == "mincut" ? 2100e-6 : 1600e-6;
    EXPECT_LT(world.run(*method)->measurement.step_time_s, limit_s) << method->name();
  }
}

TEST(PartitionMethods, NeverSplitAClassAndAreReproducible) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng{seed, Purpose::kTest, 7};
    World world{random_graph(rng, 90), sample_devices(1 + seed % 4, seed % 2 == 0, kPlenty)};
    const LoweredGraph lowered{world.graph};
    for (const PlacingUnits& units : placing_granularities(world.problem(), lowered)) {
      const PartitionGraph graph{world.problem(), lowered, units};
      std::vector<std::int32_t> parts;
      for (std::size_t v = 0; v < graph.size(); ++v)
        parts.push_back(
            static_cast<std::int32_t>(rng.below(static_cast<std::uint32_t>(world.devices.size()))));
      const Placement placement = graph.placement(parts, all_devices(world.devices));
      // The placement is checked without repair.
      EXPECT_TRUE(world.constraints.check(world.graph, world.devices, placement).ok());
    }
    for (const Method* method : partition_methods()) {
      ::testing::internal::CaptureStdout();
      const Answer first = world.run(*method, seed).value(), again = world.run(*method, seed).value();
      EXPECT_EQ(::testing::internal::GetCapturedStdout(), "") << method->name();
      EXPECT_EQ(first.placement, again.placement) << method->name();
    }
  }
}

TEST(PartitionMethods, ObeyOpsForOneDeviceOnly) {
  World world{testing::restricted_graph(), sample_devices(3, true, kPlenty)};
  const DeviceId g1 = world.devices.find("gpu:1").value();
  for (const Method* method : partition_methods()) {
    const Answer found = world.run(*method).value();
    for (std::size_t i = 0; i < 12; i += 4) EXPECT_EQ(found.placement[i], g1) << method->name();
  }
}

}  // namespace
}  // namespace emplace

// Goal: annealing finds known optima, walks through placements that do not fit, is reproducible, keeps to its
// budget, and beats every simple method on the shipped graph. Method: small graphs whose optimum is found by
// enumeration, planted partitions, and the quickstart.

#include "solver/search/anneal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "graph/formats/graph_file.h"
#include "placement/machine/device_file.h"
#include "solver/methods.h"
#include "tests/solver/world.h"

namespace emplace {
namespace {

using testing::random_graph;
using testing::sample_devices;
using testing::sample_graph;
using testing::SampleOp;

using testing::kPlenty;
using testing::World;

Answer anneal(World& world, AnnealOptions options, std::uint64_t seed = 1) {
  return world.run(Anneal{options}, seed).value();
}

/// The least step time of all placements of the co-location classes that fit.
double best_of_all(World& world) {
  const auto leaders = class_leaders(world.constraints);
  std::vector<std::size_t> digit(leaders.size(), 0);
  double best = std::numeric_limits<double>::infinity();
  Measurement measured;
  for (;;) {
    Placement placement(world.graph.num_ops());
    for (std::uint32_t op = 0; op < placement.size(); ++op)
      placement[op] = static_cast<DeviceId>(digit[world.constraints.class_of(OpId{op})]);
    EXPECT_TRUE(world.simulator.measure(placement, measured).ok());
    if (measured.valid) best = std::min(best, measured.step_time_s);
    std::size_t k = 0;
    while (k < digit.size() && ++digit[k] == world.devices.size()) digit[k++] = 0;
    if (k == digit.size()) return best;
  }
}

TEST(Anneal, FindsTheOptimumOfSmallGraphs) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Rng rng{seed, Purpose::kTest};
    World world{random_graph(rng, 11), sample_devices(2, /*cpu=*/true, kPlenty)};
    const Answer found = anneal(world, {.evaluations = 4000}, seed);
    EXPECT_TRUE(found.measurement.valid);
    EXPECT_DOUBLE_EQ(found.measurement.step_time_s, best_of_all(world)) << "seed " << seed;
  }
}

TEST(Anneal, FindsAPlantedPartitionOfUnequalOps) {
  // Two hidden halves of 1,000 us each, in one shuffled row of independent ops.
  std::vector<double> us{311, 289, 173, 127, 71, 29, 401, 257, 139, 103, 61, 39};
  Rng rng{5, Purpose::kTest};
  rng.shuffle(us);
  std::vector<SampleOp> ops;
  for (const double each : us)
    ops.push_back({.name = "op" + std::to_string(ops.size()), .gpu_us = each, .cpu_us = 1e5});
  World world{sample_graph(ops), sample_devices(2, true, kPlenty)};
  EXPECT_NEAR(anneal(world, {}).measurement.step_time_s, 1000e-6, 1e-9);
}

TEST(Anneal, ClimbsOutOfPlacementsThatDoNotFit) {
  // Only one partition of the weights (and its mirror image) fills both memories to the byte.
  OpGraphBuilder builder;
  const std::vector<std::int64_t> megabytes{61, 39, 311, 289, 173, 127, 257, 143, 401, 199};
  for (std::uint32_t i = 0; i < megabytes.size(); ++i) {
    OpSpec op;
    op.name = "layer" + std::to_string(i);
    op.type = "Work";
    op.param_bytes = megabytes[i] * 1'000'000;
    op.outputs = {{DType::kF32, {}}};
    op.measured_us = {{"gpu", 10.0}, {"cpu", 10.0}};
    builder.add(std::move(op));
  }
  World world{std::move(builder).build().value(), sample_devices(2, false, 1'000'000'000 + 64)};
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    EXPECT_TRUE(anneal(world, {.evaluations = 6000}, seed).measurement.valid) << "seed " << seed;
}

TEST(Anneal, IsReproducibleObeysTheConstraintsAndKeepsToItsBudget) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Rng rng{seed, Purpose::kTest, 1};
    World world{random_graph(rng, 60), sample_devices(3, true, kPlenty)};
    const Answer first = anneal(world, {.evaluations = 1500}, seed);
    const Answer again = anneal(world, {.evaluations = 1500}, seed);
    EXPECT_EQ(first.placement, again.placement);
    EXPECT_EQ(first.evaluations, again.evaluations);
    EXPECT_LE(first.evaluations, 1500u);
    EXPECT_TRUE(world.constraints.check(world.graph, world.devices, first.placement).ok());
    Measurement measured;
    ASSERT_TRUE(world.simulator.measure(first.placement, measured).ok());
    EXPECT_EQ(measured, first.measurement);
    for (const Method* method : all_methods()) {
      const auto simple = method->find(world.problem(seed), world.simulator);
      EXPECT_FALSE(simple && better(simple->measurement, first.measurement)) << method->name();
    }
  }
}

TEST(Anneal, AcceptsOneDeviceOrOneOp) {
  World one_device{sample_graph({{.name = "a"}, {.name = "b"}}), sample_devices(1, false, kPlenty)};
  EXPECT_TRUE(anneal(one_device, {}).measurement.valid);
  World one_op{sample_graph({{.name = "a"}}), sample_devices(2, true, kPlenty)};
  EXPECT_TRUE(anneal(one_op, {.evaluations = 500}).measurement.valid);
  EXPECT_FALSE(Anneal{{.groups = 1}}.find(one_op.problem(), one_op.simulator).ok());
}

TEST(Anneal, IsUsedByNameOnly) {
  EXPECT_EQ((*find_method("anneal"))->name(), "anneal");
  for (const Method* method : all_methods()) EXPECT_NE(method->name(), "anneal");
  EXPECT_EQ(find_method("aneal").error().context, "method 'aneal': is unknown; did you mean 'anneal'?");
}

TEST(Anneal, BeatsEverySimpleMethodOnTheQuickstartWithAFifthOfItsBudget) {
  const std::string root = EMPLACE_SOURCE_DIR;
  World world{load_graph(root + "/configs/graphs/nmt-2layer-bs64.json.gz").value(),
              load_devices(root + "/configs/devices/quickstart.toml").value()};
  EXPECT_GT(Anneal{}.budget(world.problem()), 15'000u);
  const Answer found = anneal(world, {.evaluations = 4000});
  ASSERT_TRUE(found.measurement.valid);
  // The best simple method is round-robin with 611 ms; the whole budget ends between 420 and 440.
  EXPECT_LT(found.measurement.step_time_s, 0.500);
}

}  // namespace
}  // namespace emplace

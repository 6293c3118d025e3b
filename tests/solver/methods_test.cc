// Goal: every method obeys the constraints, is reproducible, and does what its name states. Method: small
// graphs whose right answer is known, in the simulator.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

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

const Method& named(std::string_view method) { return *find_method(method).value(); }

OpGraph scoped_graph(const std::vector<std::pair<std::string, std::vector<EdgeSpec>>>& ops) {
  OpGraphBuilder builder;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    OpSpec op;
    op.name = "op" + std::to_string(i);
    op.type = "Work";
    op.group = ops[i].first;
    op.inputs = ops[i].second;
    op.outputs = {{DType::kF32, {4}}};
    op.measured_us = {{"gpu", 10.0}, {"cpu", 100.0}};
    builder.add(std::move(op));
  }
  return std::move(builder).build().value();
}

OpGraph chain(std::size_t ops) {
  std::vector<SampleOp> list;
  for (std::uint32_t i = 0; i < ops; ++i) {
    list.push_back({.name = "op" + std::to_string(i),
                    .inputs = i == 0 ? std::vector<EdgeSpec>{} : std::vector<EdgeSpec>{{i - 1, 0}},
                    .gpu_us = 10,
                    .cpu_us = 1000});
  }
  return sample_graph(list);
}

TEST(Methods, ObeyTheConstraintsAndAreReproducibleOnRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Rng rng{seed, Purpose::kTest};
    World world{random_graph(rng, 40), sample_devices(2, /*cpu=*/true, kPlenty)};
    for (const Method* method : all_methods()) {
      const Answer first = method->find(world.problem(seed), world.simulator).value();
      const Answer again = method->find(world.problem(seed), world.simulator).value();
      EXPECT_TRUE(world.constraints.check(world.graph, world.devices, first.placement).ok())
          << method->name();
      EXPECT_EQ(first.placement, again.placement) << method->name();
      Measurement measured;
      ASSERT_TRUE(world.simulator.measure(first.placement, measured).ok());
      EXPECT_EQ(measured, first.measurement) << method->name();
    }
  }
}

TEST(Methods, MisspeltNameGetsTheNearest) {
  const auto method = find_method("contigous");
  ASSERT_FALSE(method.ok());
  EXPECT_EQ(method.error().context, "method 'contigous': is unknown; did you mean 'contiguous'?");
}

TEST(SingleDevice, TakesTheBestOfItsKindAndReportsTheBytesOver) {
  World roomy{chain(4), sample_devices(2, true, kPlenty)};
  const Answer gpu = roomy.run(named("single-gpu")).value();
  EXPECT_TRUE(gpu.measurement.valid);
  EXPECT_NEAR(gpu.measurement.step_time_s, 40e-6, 1e-9);
  EXPECT_EQ(gpu.evaluations, 2u);

  World tight{chain(4), sample_devices(1, false, /*memory=*/6)};
  const Answer over = tight.run(named("single-gpu")).value();
  EXPECT_FALSE(over.measurement.valid);
  EXPECT_GT(over.measurement.bytes_over, 0);
}

TEST(SingleDevice, FailsWithoutADeviceOfItsKind) {
  World world{chain(3), sample_devices(2, /*cpu=*/false, kPlenty)};
  const auto found = world.run(named("single-cpu"));
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, Errc::kNoPlacement);
}

TEST(RandomGroups, DependsOnTheSeedAndMeasuresAHundredPlacements) {
  World world{scoped_graph({{"a", {}},
                            {"b", {}},
                            {"c", {{0, 0}}},
                            {"d", {{1, 0}}},
                            {"e", {{2, 0}, {3, 0}}},
                            {"f", {}},
                            {"g", {{4, 0}}}}),
              sample_devices(3, true, kPlenty)};
  const Answer one = world.run(named("random"), 1).value();
  const Answer two = world.run(named("random"), 3).value();
  EXPECT_EQ(one.evaluations, 100u);
  EXPECT_NE(one.placement, two.placement);
}

TEST(RandomGroups, PutsStateWhereItFits) {
  OpGraphBuilder builder;
  for (const char* name : {"a", "b"}) {
    OpSpec weight;
    weight.name = name;
    weight.type = "Parameter";
    weight.group = name;
    weight.param_bytes = 100;
    weight.outputs = {{DType::kF32, {25}}};
    builder.add(std::move(weight));
  }
  for (std::uint32_t i = 0; i < 2; ++i) {
    OpSpec work;
    work.name = "work" + std::to_string(i);
    work.type = "Work";
    work.group = i == 0 ? "a" : "b";
    work.inputs = {{i, 0}};
    work.outputs = {{DType::kF32, {1}}};
    work.measured_us = {{"gpu", 1.0}, {"cpu", 1.0}};
    builder.add(std::move(work));
  }
  // One device holds one weight only, so that every draw that fits must separate them.
  World world{std::move(builder).build().value(), sample_devices(2, false, 120)};
  const Answer found = world.run(named("random")).value();
  EXPECT_TRUE(found.measurement.valid);
  EXPECT_NE(found.placement[0], found.placement[1]);
}

TEST(RoundRobin, DealsGroupsInTurn) {
  World world{scoped_graph({{"a", {}}, {"b", {}}, {"c", {}}, {"d", {}}}), sample_devices(2, true, kPlenty)};
  const Answer found = world.run(named("round-robin")).value();
  const DeviceId first = world.devices.find("gpu:0").value(), second = world.devices.find("gpu:1").value();
  EXPECT_EQ(found.placement, (Placement{first, second, first, second}));
  EXPECT_EQ(found.evaluations, 2u);  // One evaluation with the GPUs only, and one with all devices.
}

TEST(Contiguous, CutsAChainAtMostOncePerDevice) {
  // Memory forces the cut: a GPU holds the state of half of the layers.
  OpGraphBuilder builder;
  for (std::uint32_t i = 0; i < 8; ++i) {
    OpSpec op;
    op.name = "layer" + std::to_string(i);
    op.type = "Work";
    op.param_bytes = 100;
    if (i > 0) op.inputs = {{i - 1, 0}};
    op.outputs = {{DType::kF32, {1}}};
    op.measured_us = {{"gpu", 10.0}, {"cpu", 10.0}};
    builder.add(std::move(op));
  }
  World world{std::move(builder).build().value(), sample_devices(2, false, 450)};
  const Answer found = world.run(named("contiguous")).value();
  EXPECT_TRUE(found.measurement.valid);
  int changes = 0;
  for (std::size_t i = 1; i < found.placement.size(); ++i)
    changes += found.placement[i] != found.placement[i - 1];
  EXPECT_EQ(changes, 1);
}

TEST(Contiguous, GivesAFasterDeviceMoreOfTheWork) {
  std::vector<SampleOp> ops;
  for (int i = 0; i < 40; ++i) ops.push_back({.name = "op" + std::to_string(i), .gpu_us = 10, .cpu_us = 30});
  World world{sample_graph(ops), sample_devices(1, true, kPlenty)};
  const Answer found = world.run(named("contiguous")).value();
  const auto on_gpu =
      std::count(found.placement.begin(), found.placement.end(), world.devices.find("gpu:0").value());
  EXPECT_EQ(on_gpu, 30);
  EXPECT_NEAR(found.measurement.step_time_s, 300e-6, 1e-9);
}

TEST(Expert, PutsEachRecurrentLayerOnAGpuAndTheTopWithTheLast) {
  World world{scoped_graph({{"embedding", {}},
                            {"encoder/t00/l0", {{0, 0}}},
                            {"encoder/t00/l1", {{1, 0}}},
                            {"encoder/t01/l0", {{1, 0}}},
                            {"attention/t00", {{2, 0}}},
                            {"softmax", {{4, 0}}}}),
              sample_devices(2, true, kPlenty)};
  const Answer found = world.run(named("expert")).value();
  const DeviceId g0 = world.devices.find("gpu:0").value(), g1 = world.devices.find("gpu:1").value();
  EXPECT_EQ(found.placement, (Placement{g0, g0, g1, g0, g1, g1}));
}

/// A chain of scopes, each of which holds 100 bytes for the whole step.
OpGraph heavy_chain(const std::vector<std::string>& scopes) {
  OpGraphBuilder builder;
  for (std::uint32_t i = 0; i < scopes.size(); ++i) {
    OpSpec op;
    op.name = "op" + std::to_string(i);
    op.type = "Work";
    op.group = scopes[i];
    op.param_bytes = 100;
    if (i > 0) op.inputs = {{i - 1, 0}};
    op.outputs = {{DType::kF32, {1}}};
    op.measured_us = {{"gpu", 10.0}, {"cpu", 100.0}};
    builder.add(std::move(op));
  }
  return std::move(builder).build().value();
}

TEST(Expert, CutsOtherNetworksIntoEqualBlocksIfOneGpuCannotHoldThem) {
  const std::vector<std::string> scopes{"layer1.0.conv1", "layer1.0.conv2", "layer2.0.conv1",
                                        "layer2.0.conv2"};
  World tight{heavy_chain(scopes), sample_devices(2, true, 250)};
  const DeviceId g0 = tight.devices.find("gpu:0").value(), g1 = tight.devices.find("gpu:1").value();
  EXPECT_EQ(tight.run(named("expert")).value().placement, (Placement{g0, g0, g1, g1}));
  World roomy{heavy_chain(scopes), sample_devices(2, true, kPlenty)};
  EXPECT_EQ(roomy.run(named("expert")).value().placement, Placement(4, g0));  // A chain gains nothing.
}

TEST(Expert, SpreadsTheBranchesOfAModule) {
  World world{scoped_graph({{"stem", {}},
                            {"Mixed_5b.branch1x1.conv", {{0, 0}}},
                            {"Mixed_5b.branch3x3_1.conv", {{0, 0}}},
                            {"Mixed_5b.branch3x3_2.conv", {{2, 0}}},
                            {"Mixed_5b.branch_pool.conv", {{0, 0}}},
                            {"fc", {{1, 0}, {3, 0}, {4, 0}}}}),
              sample_devices(2, true, kPlenty)};
  const Answer found = world.run(named("expert")).value();
  EXPECT_EQ(found.placement[2], found.placement[3]);  // These are two steps of one branch.
  EXPECT_NE(found.placement[2], found.placement[1]);
  EXPECT_NE(found.placement[2], found.placement[4]);
}

TEST(Expert, RecognisesLayersOfUnrolledCellsByTheirNumber) {
  World world{scoped_graph({{"t00/cells.0", {}},
                            {"t00/cells.1", {{0, 0}}},
                            {"t01/cells.0", {{0, 0}}},
                            {"t01/cells.1", {{1, 0}, {2, 0}}}}),
              sample_devices(2, true, kPlenty)};
  const DeviceId g0 = world.devices.find("gpu:0").value(), g1 = world.devices.find("gpu:1").value();
  EXPECT_EQ(world.run(named("expert")).value().placement, (Placement{g0, g1, g0, g1}));
}

}  // namespace
}  // namespace emplace

// Goal: violations of the constraints of a placement are found, repaired and named. Method: graphs by hand,
// then seeded random ones.
#include "placement/placement.h"

#include <gtest/gtest.h>

#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

OpGraph restricted() {
  OpGraphBuilder builder;
  const auto add = [&](std::string name, std::vector<std::string> devices, OpId colocate) {
    OpSpec op;
    op.name = std::move(name);
    op.type = "Work";
    op.has_allowed_devices = !devices.empty();
    op.allowed_devices = std::move(devices);
    op.colocate = colocate;
    builder.add(std::move(op));
  };
  add("free", {}, kNoOp);
  add("leader", {"gpu:0", "gpu:1"}, kNoOp);
  add("member", {"cpu:0", "gpu:1"}, OpId{1});
  add("member of member", {}, OpId{2});
  return *std::move(builder).build();
}

TEST(Constraints, ClassMayUseTheDevicesThatAllItsMembersMay) {
  const OpGraph graph = restricted();
  const DeviceSet devices = testing::sample_devices(2, true, 1 << 20);
  const auto constraints = Constraints::make(graph, devices);
  ASSERT_TRUE(constraints.ok());
  EXPECT_EQ(constraints->num_classes(), 2u);
  EXPECT_TRUE(constraints->allows(OpId{3}, DeviceId{2}));
  EXPECT_FALSE(constraints->allows(OpId{3}, DeviceId{0}));
  EXPECT_FALSE(constraints->allows(OpId{3}, DeviceId{1}));
}

TEST(Constraints, RepairMovesOpsToAllowedDevices) {
  const OpGraph graph = restricted();
  const DeviceSet devices = testing::sample_devices(2, true, 1 << 20);
  const auto constraints = Constraints::make(graph, devices);
  Placement placement(4, DeviceId{0});
  EXPECT_FALSE(constraints->check(graph, devices, placement).ok());
  EXPECT_EQ(constraints->repair(placement), 3u);
  EXPECT_EQ(placement, (Placement{DeviceId{0}, DeviceId{2}, DeviceId{2}, DeviceId{2}}));
  EXPECT_TRUE(constraints->check(graph, devices, placement).ok());
  EXPECT_EQ(constraints->repair(placement), 0u);
}

TEST(Constraints, ErrorsNameTheOp) {
  const OpGraph graph = restricted();
  const DeviceSet devices = testing::sample_devices(2, true, 1 << 20);
  const auto constraints = Constraints::make(graph, devices);
  const auto why = [&](const Placement& placement) {
    return constraints->check(graph, devices, placement).error().context;
  };
  EXPECT_NE(why({DeviceId{0}}).find("has 1 ops"), std::string::npos);
  EXPECT_NE(why(Placement(4, DeviceId{9})).find("'free'"), std::string::npos);
  EXPECT_NE(why({DeviceId{0}, DeviceId{2}, DeviceId{2}, DeviceId{0}}).find("'member of member'"),
            std::string::npos);
}

TEST(Constraints, RefuseUnknownDevicesAndImpossibleClasses) {
  const OpGraph graph = restricted();
  EXPECT_FALSE(Constraints::make(graph, testing::sample_devices(1, true, 1 << 20)).ok()) << "no gpu:1";
  OpGraphBuilder builder;
  OpSpec a{.name = "a", .type = "Work", .allowed_devices = {"cpu:0"}, .has_allowed_devices = true};
  OpSpec b{.name = "b",
           .type = "Work",
           .colocate = OpId{0},
           .allowed_devices = {"gpu:0"},
           .has_allowed_devices = true};
  builder.add(a);
  builder.add(b);
  const OpGraph torn = *std::move(builder).build();
  const auto refused = Constraints::make(torn, testing::sample_devices(1, true, 1 << 20));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().context.find("no device"), std::string::npos);
}

TEST(Constraints, RepairedRandomPlacementsPassTheCheck) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph = testing::random_graph(rng, 40);
    const DeviceSet devices = testing::sample_devices(3, true, 1 << 20);
    const auto constraints = Constraints::make(graph, devices);
    Placement placement = testing::random_placement(rng, graph.num_ops(), devices.size());
    constraints->repair(placement);
    EXPECT_TRUE(constraints->check(graph, devices, placement).ok()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace emplace

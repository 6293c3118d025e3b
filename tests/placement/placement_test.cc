// Goal: violations of the constraints of a placement are found, repaired and named. Method: graphs by hand,
// then seeded random ones.
#include "placement/placement.h"

#include <gtest/gtest.h>

#include "placement/applied_rules.h"
#include "placement/machine/machine_text.h"
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

/// Ops of unknown work: "a" measured on GPUs, "b" with it, "c" measured on all, "d" not measured, "e" with
/// work, "f" that may be on the CPU by the graph.
OpGraph timed(const std::string& kind) {
  OpGraphBuilder builder;
  const auto add = [&](const char* name, std::vector<std::pair<std::string, double>> us) {
    OpSpec op;
    op.name = name, op.type = "Layer";
    op.outputs = {{DType::kF32, {16}}};
    op.measured_us = std::move(us);
    if (op.name == "b") op.colocate = OpId{0};
    if (op.name == "e") op.flops = 5;
    if (op.name == "f") op.has_allowed_devices = true, op.allowed_devices = {"*"};
    builder.add(std::move(op));
  };
  add("a", {{kind, 300}}), add("b", {}), add("c", {{"gpu", 3}, {"cpu", 5}}), add("d", {});
  add("e", {{kind, 300}}), add("f", {{kind, 300}});
  return *std::move(builder).build();
}

/// The ops that may be on device `d`, by their letters.
std::string allowed_on(const Constraints& constraints, std::uint8_t d) {
  std::string names;
  for (std::uint32_t op = 0; op < 6; ++op)
    if (constraints.allows(OpId{op}, DeviceId{d})) names += static_cast<char>('a' + op);
  return names;
}

TEST(Constraints, OpsOfUnknownWorkStayWhereTheirTimeWasMeasured) {
  const DeviceSet both = testing::sample_devices(1, true, 1 << 20);
  const Constraints gpu = Constraints::make(timed("gpu"), both).value();
  EXPECT_EQ(allowed_on(gpu, 0), "cdef");
  EXPECT_EQ(allowed_on(gpu, 1), "abcdef");
  EXPECT_EQ(timing_note(timed("gpu"), both, gpu),
            "2 ops have times measured on gpu and unknown work: they stay off cpu:0, unless a rule allows it "
            "(docs/guide/rules.md); on cpu:0 their time is estimated from the bytes that they move");
  const Constraints cpu = Constraints::make(timed("cpu"), both).value();
  EXPECT_EQ(allowed_on(cpu, 0), "abcdef");
  EXPECT_EQ(allowed_on(cpu, 1), "cdef");
  EXPECT_EQ(allowed_on(Constraints::make(timed("k40"), both).value(), 0), "cdef");
  EXPECT_EQ(allowed_on(Constraints::make(timed("gpu"), both, {}, /*by_bytes=*/true).value(), 0), "abcdef");
}

TEST(Constraints, OpsOfUnknownWorkMayBeElsewhereByRuleOrForWantOfAMeasuredKind) {
  const OpGraph graph = timed("gpu");
  const DeviceSet both = testing::sample_devices(1, true, 1 << 20);
  const auto on_cpu = [&](const char* toml) {
    const AppliedRules rules = apply_rules(graph, both, parse_rules(toml, "rules.toml").value()).value();
    return allowed_on(Constraints::make(graph, both, rules).value(), 0);
  };
  EXPECT_EQ(on_cpu("[[rule]]\nmatch = { name = '.' }\nallow = [\"*\"]\n"), "abcdef");
  EXPECT_EQ(on_cpu("[[rule]]\nmatch = { name = '^b$' }\npin = \"cpu:0\"\n"), "abcdef");
  EXPECT_EQ(on_cpu("[[rule]]\nmatch = { name = '^d$' }\nforbid = [\"cpu:0\"]\n"), "cef");
  const DeviceSet cpu =
      DeviceSet::make({{"cpu:0", *find_profile("haswell18"), 1 << 20, ""}}, Link{1e9, 0}).value();
  const Constraints only = Constraints::make(graph, cpu).value();
  EXPECT_EQ(allowed_on(only, 0), "abcdef");
  EXPECT_EQ(
      timing_note(graph, cpu, only),
      "2 ops have times measured on gpu and unknown work: on cpu:0 their time is estimated from the bytes "
      "that they move");
  const DeviceSet gpus = testing::sample_devices(2, false, 1 << 20);
  EXPECT_EQ(timing_note(graph, gpus, Constraints::make(graph, gpus).value()), "");
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

TEST(Constraints, APrefixMeansTheDevicesOfEveryHost) {
  const auto devices = parse_machine("2 x (h100, epyc9654) by ib-ndr");
  ASSERT_TRUE(devices.ok()) << devices.error().context;
  OpGraphBuilder builder;
  builder.add({.name = "a", .type = "Work", .allowed_devices = {"cpu:*"}, .has_allowed_devices = true});
  const OpGraph graph = *std::move(builder).build();
  const auto constraints = Constraints::make(graph, *devices);
  ASSERT_TRUE(constraints.ok()) << constraints.error().context;
  for (std::uint8_t d = 0; d < devices->size(); ++d)
    EXPECT_EQ(constraints->allows(OpId{0}, DeviceId{d}), devices->is_cpu(DeviceId{d}));
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

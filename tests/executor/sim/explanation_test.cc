// Goal: the explained effect of moving ops equals a simulation of the moved placement. Method: a graph by
// hand with known numbers; then a real one, each claim simulated again from scratch.

#include "executor/sim/explanation.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/formats/graph_file.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using testing::sample_devices;
using testing::sample_graph;

constexpr DeviceId kCpu{0}, kGpu0{1}, kGpu1{2};
constexpr std::int64_t kAmple = std::int64_t{1} << 40;

/// a makes 1000 bytes for b (with its weight w) and c; d joins them. 1 us + 1 us per 1000 bytes over a link.
OpGraph diamond() {
  return sample_graph(
      {{.name = "w", .output_bytes = {4000}, .type = "Parameter"},
       {.name = "a", .output_bytes = {1000}, .gpu_us = 10, .cpu_us = 30},
       {.name = "b",
        .inputs = {{1, 0}, {0, 0}},
        .output_bytes = {1000},
        .gpu_us = 20,
        .cpu_us = 60,
        .colocate = OpId{0}},
       {.name = "c", .inputs = {{1, 0}}, .output_bytes = {1000}, .gpu_us = 15, .cpu_us = 16},
       {.name = "d", .inputs = {{2, 0}, {3, 0}}, .output_bytes = {8}, .gpu_us = 5, .cpu_us = 50}});
}

TEST(Explanation, DiamondEqualsAComputationByHand) {
  const OpGraph graph = diamond();
  const DeviceSet devices = sample_devices(2, true, kAmple);
  const Constraints constraints = Constraints::make(graph, devices).value();
  const Placement placement(5, kGpu0);
  const auto explained =
      explain_placement(graph, devices, constraints, placement, parts_by_op(graph, {OpId{2}, OpId{3}}), 10);
  ASSERT_TRUE(explained.ok()) << explained.error().context;
  EXPECT_DOUBLE_EQ(explained->measured.step_time_s, 50e-6) << "ops run in sequence";
  ASSERT_EQ(explained->parts.size(), 2u);
  const ExplainedPart& b = explained->parts[0];
  EXPECT_EQ(b.name, "b") << "it takes longer";
  EXPECT_DOUBLE_EQ(b.time_s, 20e-6);
  EXPECT_DOUBLE_EQ(b.critical_s, 20e-6);
  EXPECT_EQ(b.output_bytes, 1000);
  EXPECT_EQ(b.companions, 1u) << "its weight";
  EXPECT_TRUE(b.there[index(kGpu0)].same);
  // On gpu:1: a 10, copy 2, b 20, copy 2, d 5; c meanwhile.
  EXPECT_NEAR(b.there[index(kGpu1)].measured.step_time_s, 39e-6, 1e-9);
  EXPECT_EQ(b.there[index(kGpu1)].measured.peak_bytes[index(kGpu1)], 4000 + 1000 + 1000)
      << "the weight moved along";
  EXPECT_DOUBLE_EQ(b.there[index(kCpu)].time_s, 60e-6);
  const ExplainedPart& c = explained->parts[1];
  // On the CPU: a 10, copy 2, c 16, copy 2; b is done at 30, at the same time; d 5.
  EXPECT_NEAR(c.there[index(kCpu)].measured.step_time_s, 35e-6, 1e-9);
  EXPECT_EQ(c.companions, 0u);
}

TEST(Explanation, ReportsForbiddenDevicesAndMissingMemory) {
  const OpGraph graph = testing::restricted_graph();
  const DeviceSet devices = sample_devices(2, true, kAmple);
  const Constraints constraints = Constraints::make(graph, devices).value();
  Placement placement(graph.num_ops(), kGpu1);
  const auto explained =
      explain_placement(graph, devices, constraints, placement, parts_by_op(graph, {OpId{4}, OpId{5}}), 10);
  ASSERT_TRUE(explained.ok());
  for (const ExplainedPart& part : explained->parts) {
    EXPECT_EQ(part.there[index(kCpu)].allowed, part.name == "op5") << part.name;
    EXPECT_TRUE(part.there[index(kGpu1)].same);
  }
  const OpGraph large = diamond();
  const DeviceSet small = sample_devices(2, true, 5000);
  const auto misfit =
      explain_placement(large, small, Constraints::make(large, small).value(),
                        {kGpu0, kGpu1, kGpu0, kGpu1, kGpu1}, parts_by_op(large, {OpId{2}}), 10);
  ASSERT_TRUE(misfit.ok());
  EXPECT_FALSE(misfit->parts[0].there[index(kGpu1)].measured.valid) << "the weight and three tensors";
}

TEST(Explanation, SimulatesOnlyTheMostImportantParts) {
  const OpGraph graph = testing::random_graph(3, 60);
  const DeviceSet devices = sample_devices(2, true, kAmple);
  const Constraints constraints = Constraints::make(graph, devices).value();
  Rng rng{7, Purpose::kTest};
  Placement placement = testing::random_placement(rng, 60, 3);
  constraints.repair(placement);
  std::vector<OpId> all;
  for (std::uint32_t i = 0; i < 60; ++i) all.push_back(OpId{i});
  const auto explained =
      explain_placement(graph, devices, constraints, placement, parts_by_op(graph, all), 5);
  ASSERT_TRUE(explained.ok());
  double critical_s = 0;
  for (std::size_t p = 0; p < 60; ++p) {
    EXPECT_EQ(explained->parts[p].there.size(), p < 5 ? 3u : 0u);
    if (p > 0) {
      EXPECT_GE(explained->parts[p - 1].critical_s, explained->parts[p].critical_s);
    }
    critical_s += explained->parts[p].critical_s;
  }
  EXPECT_NEAR(critical_s, explained->measured.step_time_s, 1e-12)
      << "every moment of the chain belongs to an op";
}

TEST(Explanation, ScopesEqualTheSimulator) {
  const OpGraph graph = load_graph(EMPLACE_SOURCE_DIR "/configs/graphs/nmt-2layer-bs64.json.gz").value();
  const DeviceSet devices =
      sample_devices(2, true, std::int64_t{5} << 29, {.bytes_per_s = 12e9, .latency_s = 1e-5});
  const Constraints constraints = Constraints::make(graph, devices).value();
  Placement placement(graph.num_ops(), kGpu0);
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    if (graph.group_name(OpId{i}).starts_with("decoder")) placement[i] = kGpu1;
  constraints.repair(placement);
  for (const Dispatch dispatch : {Dispatch::kProgram, Dispatch::kFifo}) {
    const auto explained = explain_placement(graph, devices, constraints, placement, parts_by_scope(graph), 6,
                                             {.dispatch = dispatch});
    ASSERT_TRUE(explained.ok());
    ASSERT_LT(explained->parts.size(), 60u) << "time steps are taken together";
    std::size_t ops = 0, compared = 0;
    Measurement measured;
    for (const ExplainedPart& part : explained->parts) {
      ops += part.ops.size();
      for (std::size_t d = 0; d < part.there.size(); ++d) {
        if (!part.there[d].allowed) continue;
        Placement moved = placement;
        std::set<std::uint32_t> classes;
        for (const OpId op : part.ops) classes.insert(constraints.class_of(op));
        for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
          if (classes.contains(constraints.class_of(OpId{i}))) moved[i] = static_cast<DeviceId>(d);
        Simulator afresh{graph, devices, {.dispatch = dispatch}};
        ASSERT_TRUE(afresh.measure(moved, measured).ok());
        EXPECT_EQ(part.there[d].measured, measured) << part.name << " on " << d;
        ++compared;
      }
    }
    EXPECT_EQ(ops, graph.num_ops());
    EXPECT_EQ(compared, 18u);
  }
}

}  // namespace
}  // namespace emplace

// Goal: groups around large weights keep a weight, its readers and its gradients off the links, and annealing
// over them finds placements that simple methods and smaller units miss in little memory. Method: random
// graphs for the invariants; a recurrent net, whose weights are read and whose gradients are summed in every
// time step.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "graph/models/catalogue.h"
#include "solver/methods.h"
#include "solver/partitioners/weight_groups.h"
#include "solver/search/anneal.h"
#include "solver/search/level.h"
#include "tests/solver/world.h"

namespace emplace {
namespace {

OpGraph rnnlm() {
  const models::ModelSizes sizes{.batch = 16, .steps = 10, .hidden = 256};
  return models::model_graph(*models::find_model("rnnlm"), sizes, {}).value();
}

/// K40s over PCIe, and a CPU.
DeviceSet machine(std::size_t gpus, std::int64_t memory) {
  std::vector<Device> devices{{"cpu:0", *find_profile("haswell18"), testing::kPlenty, ""}};
  for (std::size_t k = 0; k < gpus; ++k)
    devices.push_back({"gpu:" + std::to_string(k), *find_profile("k40"), memory, ""});
  return *DeviceSet::make(std::move(devices), Link{.bytes_per_s = 12e9, .latency_s = 10e-6});
}

TEST(WeightGroups, KeepClassesTogetherAndAreNumberedByTheirLowestOp) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    testing::World world{testing::random_graph(seed, 80), testing::sample_devices(3, true, testing::kPlenty)};
    const Problem problem = world.problem();
    const Grouping groups = weight_groups(problem);
    ASSERT_EQ(groups.group_of_op.size(), world.graph.num_ops());
    ASSERT_EQ(groups.labels.size(), groups.num_groups);
    std::vector<std::uint32_t> of_class(problem.constraints.num_classes(), kNoIndex);
    std::uint32_t seen = 0;
    for (std::uint32_t op = 0; op < world.graph.num_ops(); ++op) {
      const std::uint32_t group = groups.group_of_op[op];
      ASSERT_LE(group, seen);
      seen = std::max(seen, group + 1);
      std::uint32_t& expected = of_class[problem.constraints.class_of(OpId{op})];
      if (expected == kNoIndex) expected = group;
      ASSERT_EQ(group, expected);
    }
    ASSERT_EQ(seen, groups.num_groups);
  }
}

TEST(WeightGroups, ContainReadersAndGradientsOfARecurrentWeight) {
  testing::World world{rnnlm(), machine(4, testing::kPlenty)};
  const OpGraph& graph = world.graph;
  const Grouping groups = weight_groups(world.problem());
  std::uint32_t weight = kNoIndex;
  for (std::uint32_t op = 0; op < graph.num_ops(); ++op)
    if (graph.name(OpId{op}) == "cells.0.weight_hh") weight = op;
  ASSERT_NE(weight, kNoIndex);
  const TensorId held = graph.output(OpId{weight}, 0);
  std::size_t readers = 0;
  for (const OpId reader : graph.consumers(held)) {
    EXPECT_EQ(groups.group_of_op[index(reader)], groups.group_of_op[weight]) << graph.name(reader);
    ++readers;
  }
  EXPECT_GT(readers, 0u);
  // The tensors of its size that lead to its update, from the update back.
  std::set<std::uint32_t> makers;
  std::vector<OpId> open;
  for (const OpId reader : graph.consumers(held))
    if (graph.phase(reader) == Phase::kUpdate) open.push_back(reader);
  ASSERT_FALSE(open.empty());
  while (!open.empty()) {
    const OpId op = open.back();
    open.pop_back();
    for (const TensorId input : graph.inputs(op)) {
      const OpId maker = graph.producer(input);
      if (graph.is_state(maker) || graph.bytes(input) < graph.bytes(held)) continue;
      if (makers.insert(static_cast<std::uint32_t>(index(maker))).second) open.push_back(maker);
    }
  }
  EXPECT_GE(makers.size(), 10u) << "one for each time step";
  std::set<std::uint32_t> used;
  for (const std::uint32_t maker : makers) used.insert(groups.group_of_op[maker]);
  EXPECT_EQ(used.size(), 1u);
  EXPECT_LT(groups.num_groups, 40u);
}

TEST(WeightGroups, FindPlacementsThatListSchedulesMissInLittleMemory) {
  const OpGraph graph =
      models::model_graph(*models::find_model("rnnlm"), {.batch = 64, .steps = 40}, {}).value();
  const DeviceSet one = machine(1, testing::kPlenty);
  Measurement alone;
  ASSERT_TRUE(Simulator(graph, one).measure(Placement(graph.num_ops(), DeviceId{1}), alone).ok());
  const DeviceSet devices = machine(4, alone.peak_bytes[1] * 2 / 5);
  const Constraints constraints = Constraints::make(graph, devices).value();
  Simulator simulator{graph, devices};
  Problem problem{graph, devices, constraints, simulator.costs()};
  const auto listed = find_method("m-etf").value()->find(problem, simulator);
  ASSERT_TRUE(listed.ok());
  problem.context.starts = {&*listed, 1};
  problem.context.evaluations = listed->evaluations + 1000;
  const auto found = Anneal{{.weights = WeightWalk::kOnly}}.find(problem, simulator);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->measurement.valid);
  EXPECT_LT(found->measurement.step_time_s, 0.5 * listed->measurement.step_time_s);
}

}  // namespace
}  // namespace emplace

// Goal: the graph of a memory plan runs again what the plan names, no earlier than the backward pass needs
// it, and hands moved tensors back; what a plan cannot do is refused by name. Method: a chain of two layers
// by hand, with steps and peaks computed by hand.
#include "graph/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "executor/sim/simulator.h"
#include "graph/copied_op.h"
#include "placement/order.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kBack = Phase::kBackward;

/// in → f1 → f2 → f3 → loss, and gradients of each that read what the forward pass made: g3 of f2, g2 of f1.
/// Every op takes 1 us and makes 100 bytes; the weight w, of 10 bytes, is read by f1 and updated at the end.
OpGraph chain() {
  return testing::sample_graph({
      {"w", {}, {10}, 0, 0, "Parameter"},
      {"f1", {{0, 0}}, {100}},
      {"f2", {{1, 0}}, {100}},
      {"f3", {{2, 0}}, {100}},
      {"loss", {{3, 0}}, {4}},
      {"g3", {{4, 0}, {2, 0}}, {100}, 1, 1, "Work", false, kBack},
      {"g2", {{5, 0}, {1, 0}}, {100}, 1, 1, "Work", false, kBack},
      {"g1", {{6, 0}}, {10}, 1, 1, "Work", false, kBack},
      {"step", {{0, 0}, {7, 0}}, {10}, 1, 1, "Work", false, Phase::kUpdate},
  });
}
constexpr OpId kF1{1}, kF2{2}, kG3{5};

std::vector<std::string> names_of(const OpGraph& graph) {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) names.emplace_back(graph.name(OpId{i}));
  return names;
}

std::vector<std::string> read_by(const OpGraph& graph, std::string_view name) {
  std::vector<std::string> read;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    if (graph.name(OpId{i}) == name)
      for (const TensorId input : graph.inputs(OpId{i})) read.emplace_back(graph.name(graph.producer(input)));
  return read;
}

Measurement step_of(const OpGraph& graph, const DeviceSet& devices, const Placement& placement) {
  Measurement measured;
  EXPECT_TRUE(Simulator(graph, devices).measure(placement, measured).ok());
  return measured;
}

std::string refusal(const OpGraph& graph, const MemoryPlan& plan) {
  const std::vector<std::string> devices{"gpu:0", "cpu:0"};
  const auto made = planned(graph, plan, devices);
  return made ? std::string{} : made.error().context;
}

TEST(MemoryPlan, WithoutDecisionsTheGraphIsTheSame) {
  const OpGraph graph = chain();
  const PlannedGraph same = planned(graph, {}, {}).value();
  EXPECT_EQ(names_of(same.graph), names_of(graph));
  EXPECT_EQ(same.graph.num_edges(), graph.num_edges());
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) EXPECT_EQ(same.now[i], OpId{i});
}

TEST(MemoryPlan, RunsAgainBeforeTheFirstLateReaderAndWaitsForItsGradient) {
  const OpGraph graph = chain();
  const PlannedGraph made = planned(graph, {.recompute = {kF1}}, {}).value();
  EXPECT_THAT(names_of(made.graph), ElementsAre("w", "f1", "f2", "f3", "loss", "g3", "g3@ended", "f1@wait",
                                                "f1@again", "g2", "g1", "step"));
  EXPECT_THAT(read_by(made.graph, "f1@wait"), ElementsAre("w", "g3@ended"));
  EXPECT_THAT(read_by(made.graph, "f1@again"), ElementsAre("f1@wait"));
  EXPECT_THAT(read_by(made.graph, "g2"), ElementsAre("g3", "f1@again"));
  EXPECT_THAT(read_by(made.graph, "f2"), ElementsAre("f1")) << "the forward pass reads what it read";
}

TEST(MemoryPlan, StepAndPeakOfARecomputedTensor) {
  const OpGraph graph = chain();
  const DeviceSet devices = testing::sample_devices(1, false, 10'000);
  // Alive at the start of g3: f1, f2, loss and g3 itself. f3 ended with loss.
  const Measurement kept = step_of(graph, devices, Placement(graph.num_ops()));
  EXPECT_EQ(kept.peak_bytes[0], 10 + 3 * 100 + 4);
  EXPECT_DOUBLE_EQ(kept.step_time_s, 8e-6);
  const PlannedGraph made = planned(graph, {.recompute = {kF1}}, {}).value();
  const Measurement again = step_of(made.graph, devices, Placement(made.graph.num_ops()));
  EXPECT_DOUBLE_EQ(again.step_time_s, 9e-6);
  EXPECT_EQ(again.peak_bytes[0], 10 + 3 * 100) << "g3, f1 again and g2 are the most that is alive";
}

TEST(MemoryPlan, WaitsForTheGradientEvenIfItsDeviceIsIdle) {
  const OpGraph graph = chain();
  const DeviceSet devices = testing::sample_devices(2, false, 10'000);
  const PlannedGraph made = planned(graph, {.recompute = {kF1}}, {}).value();
  Placement placement(graph.num_ops(), DeviceId{0});
  for (const std::uint32_t far : {2u, 3u, 4u, 5u}) placement[far] = DeviceId{1};  // f2 to g3.
  Measurement measured;
  Schedule step;
  ASSERT_TRUE(Simulator(made.graph, devices).trace(planned(placement, made), measured, step).ok());
  double g3_end_s = 0, again_start_s = -1;
  for (const OpRun& run : step.ops) {
    if (made.graph.name(run.op) == "g3") g3_end_s = run.end_s;
    if (made.graph.name(run.op) == "f1@again") again_start_s = run.start_s;
  }
  EXPECT_GE(again_start_s, g3_end_s);
}

TEST(MemoryPlan, NeededKernelsRunAgainTogetherInIssueOrder) {
  const OpGraph graph = chain();
  const PlannedGraph made = planned(graph, {.recompute = {kF2, kF1}}, {}).value();
  EXPECT_THAT(names_of(made.graph), ElementsAre("w", "f1", "f2", "f3", "loss", "loss@ended", "f1@wait",
                                                "f1@again", "f2@again", "g3", "g2", "g1", "step"));
  EXPECT_THAT(read_by(made.graph, "f2@again"), ElementsAre("f1@again"));
  EXPECT_THAT(read_by(made.graph, "g2"), ElementsAre("g3", "f1@again")) << "once is enough";
}

TEST(MemoryPlan, ViewsOfWhatRunsAgainAreMadeAgain) {
  const OpGraph graph = testing::sample_graph({{"f", {}, {100}},
                                               {"v", {{0, 0}}, {100}, 0, 0, "Reshape", true},
                                               {"loss", {{1, 0}}, {4}},
                                               {"g", {{2, 0}, {1, 0}}, {100}, 1, 1, "Work", false, kBack}});
  const PlannedGraph made = planned(graph, {.recompute = {OpId{0}}}, {}).value();
  EXPECT_THAT(read_by(made.graph, "g"), ElementsAre("loss", "v@again"));
  EXPECT_THAT(read_by(made.graph, "v@again"), ElementsAre("f@again"));
  EXPECT_THAT(read_by(made.graph, "f@again"), ElementsAre("loss@ended"))
      << "without inputs it reads the signal";
}

TEST(MemoryPlan, WhatRunsAgainIsNoResult) {
  OpGraphBuilder builder;
  const OpGraph original = chain();
  for (std::uint32_t i = 0; i < original.num_ops(); ++i) builder.add(copied_op(original, OpId{i}));
  builder[kF1].results = builder[OpId{4}].results = {0};  // The loss, too.
  const OpGraph graph = std::move(builder).build().value();
  const PlannedGraph made = planned(graph, {.recompute = {kF1}}, {}).value();
  EXPECT_THAT(made.graph.results(),
              ElementsAre(made.graph.first_output(kF1), made.graph.first_output(OpId{4})));
}

TEST(MemoryPlan, MovedTensorLeavesAndComesBack) {
  const OpGraph graph = chain();
  const DeviceSet devices = testing::sample_devices(1, true, 10'000, {.bytes_per_s = 1e9, .latency_s = 1e-7});
  const DeviceId cpu{0}, gpu{1};  // A copy of 100 bytes takes 200 ns.
  const MemoryPlan plan{.moved = {{.tensor = graph.first_output(kF1), .to = cpu}}};
  const PlannedGraph made = planned(graph, plan, devices.names()).value();
  EXPECT_THAT(read_by(made.graph, "f1@fetch"), ElementsAre("f1", "g3@ended"));
  EXPECT_THAT(read_by(made.graph, "g2"), ElementsAre("g3", "f1@fetch"));
  const Measurement measured = step_of(made.graph, devices, planned(Placement(graph.num_ops(), gpu), made));
  EXPECT_EQ(measured.peak_bytes[0], 100) << "the fetch takes over the copy";
  EXPECT_EQ(measured.peak_bytes[1], 10 + 300) << "g3, f1 and g2";
  // 8 kernels; g2 waits for the signal to the CPU (100 ns) and the copy back.
  EXPECT_DOUBLE_EQ(measured.step_time_s, 8e-6 + 100e-9 + 200e-9);
  EXPECT_EQ(measured.bytes_moved, 200);
}

TEST(MemoryPlan, CopyBackBeginsAfterTheNamedKernel) {
  const OpGraph graph = chain();
  const DeviceSet devices = testing::sample_devices(1, true, 10'000, {.bytes_per_s = 1e9, .latency_s = 1e-7});
  const MemoryPlan plan{
      .moved = {{.tensor = graph.first_output(kF1), .to = DeviceId{0}, .after = OpId{4}}}};  // loss
  const PlannedGraph made = planned(graph, plan, devices.names()).value();
  EXPECT_THAT(read_by(made.graph, "f1@fetch"), ElementsAre("f1", "loss@ended"));
  const Measurement measured =
      step_of(made.graph, devices, planned(Placement(graph.num_ops(), DeviceId{1}), made));
  EXPECT_DOUBLE_EQ(measured.step_time_s, 8e-6) << "the copy is hidden behind g3";
}

TEST(MemoryPlan, RefusesWhatItCannotDoByName) {
  const OpGraph graph = chain();
  const auto move = [&](std::uint32_t op, std::uint8_t to = 1, OpId after = kNoOp) {
    return MovedTensor{graph.first_output(OpId{op}), DeviceId{to}, after};
  };
  EXPECT_THAT(refusal(graph, {.recompute = {OpId{0}}}),
              HasSubstr("op 'w': cannot be recomputed: it is state"));
  EXPECT_THAT(refusal(graph, {.recompute = {kG3}}),
              HasSubstr("op 'g3': cannot be recomputed: it is not part"));
  EXPECT_THAT(refusal(graph, {.recompute = {kF1, kF1}}), HasSubstr("op 'f1': is recomputed twice"));
  EXPECT_THAT(refusal(graph, {.recompute = {kF1}, .moved = {move(1)}}),
              HasSubstr("both moved and recomputed"));
  EXPECT_THAT(refusal(graph, {.moved = {move(3)}}), HasSubstr("op 'f3': is moved, but nothing reads it"));
  EXPECT_THAT(refusal(graph, {.moved = {move(5)}}), HasSubstr("op 'g3': cannot be moved"));
  EXPECT_THAT(refusal(graph, {.moved = {move(1, 7)}}), HasSubstr("a device that does not exist"));
  EXPECT_THAT(refusal(graph, {.moved = {move(1), move(1)}}), HasSubstr("is moved twice"));
  EXPECT_THAT(refusal(graph, {.moved = {move(1, 1, OpId{7})}}),
              HasSubstr("op 'f1': comes back after op 'g1', but op 'g2' needs it before"));
  EXPECT_THAT(refusal(graph, {.moved = {move(2, 1, kF1)}}), HasSubstr("which is no later kernel"));
  const OpGraph inference = testing::sample_graph({{"a", {}}, {"b", {{0, 0}}}});
  const OpGraph twice = planned(graph, {.recompute = {kF1}}, {}).value().graph;
  EXPECT_THAT(refusal(twice, {.recompute = {kF2}}), HasSubstr("is called as what a memory plan adds"));
  EXPECT_THAT(refusal(inference, {.recompute = {OpId{0}}}), HasSubstr("needs a training graph"));
}

TEST(MemoryPlan, RefusesToRunAgainAfterAnUpdateOfItsState) {
  const OpGraph graph = testing::sample_graph({{"w", {}, {10}, 0, 0, "Parameter"},
                                               {"f", {{0, 0}}, {100}},
                                               {"step", {{0, 0}}, {10}, 1, 1, "Work", false, Phase::kUpdate},
                                               {"g", {{1, 0}}, {100}, 1, 1, "Work", false, kBack}});
  EXPECT_THAT(refusal(graph, {.recompute = {OpId{1}}}),
              HasSubstr("op 'f': would run again after op 'step' changed op 'w'"));
}

TEST(MemoryPlan, RefusesTypesWithEffects) {
  const auto why = [](const char* type) {
    return not_recomputable(testing::sample_graph({{"f", {}, {4}, 1, 1, type}}), OpId{0});
  };
  EXPECT_EQ(why("aten::mm"), "");
  EXPECT_EQ(why("aten::native_dropout"), "");
  EXPECT_EQ(why("aten::add_.Tensor"), "writes in place");
  EXPECT_EQ(why("hlo::all-reduce"), "exchanges data with other devices");
  EXPECT_EQ(why("_c10d_functional::all_gather_into_tensor"), "exchanges data with other devices");
  EXPECT_EQ(why("AssignVariableOp"), "has an effect outside of the graph");
}

/// A random training graph, and a random plan of it; an error if an update comes before what would run again.
struct RandomPlan {
  RandomPlan(std::uint64_t seed, std::uint32_t stream)
      : rng{seed, Purpose::kTest, stream},
        graph{testing::random_training_graph(rng, 40)},
        made{planned(graph, testing::random_plan(rng, graph, devices.size()), devices.names())} {}

  Rng rng;
  const OpGraph graph;
  const DeviceSet devices = testing::sample_devices(2, true, 40'000);
  const Result<PlannedGraph> made;
};

TEST(MemoryPlan, RandomPlansKeepTheOpsOfTheGraphAndWhatTheyRead) {
  int plans = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomPlan random{seed, 1};
    if (!random.made) continue;
    const OpGraph& graph = random.graph;
    const PlannedGraph* const made = &*random.made;
    ++plans;
    const OpGraph& with = made->graph;
    ASSERT_TRUE(with.ids_are_topological());
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
      const OpId op{i}, now = made->now[i];
      ASSERT_EQ(with.name(now), graph.name(op));
      ASSERT_EQ(made->source[index(now)], op);
      ASSERT_EQ(with.inputs(now).size(), graph.inputs(op).size());
      for (std::size_t k = 0; k < graph.inputs(op).size(); ++k)
        ASSERT_EQ(with.bytes(with.inputs(now)[k]), graph.bytes(graph.inputs(op)[k]));
      const OpId other = graph.colocated_with(op);
      ASSERT_EQ(with.colocated_with(now), other == kNoOp ? kNoOp : made->now[index(other)]);
    }
  }
  EXPECT_GT(plans, 150);
}

TEST(MemoryPlan, GraphsOfPlansPassAllChecksAndTheirOpsTakeAsLongAsThoseTheyRepeat) {
  int plans = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomPlan random{seed, 2};
    if (!random.made) continue;
    const OpGraph& graph = random.graph;
    const PlannedGraph* const made = &*random.made;
    ++plans;
    OpGraphBuilder builder;
    for (std::uint32_t i = 0; i < made->graph.num_ops(); ++i) builder.add(copied_op(made->graph, OpId{i}));
    const auto checked = std::move(builder).build();
    ASSERT_TRUE(checked.ok()) << checked.error().context;
    const CostTable known = derived(CostTable{graph, random.devices}, made->graph, made->source),
                    computed{*checked, random.devices};
    for (std::uint32_t i = 0; i < checked->num_ops(); ++i) {
      const OpId op{i};
      for (std::uint8_t d = 0; d < random.devices.size(); ++d)
        ASSERT_EQ(known.ns(DeviceId{d}, op), computed.ns(DeviceId{d}, op)) << checked->name(op);
      ASSERT_TRUE(std::ranges::equal(checked->readers(op), made->graph.readers(op)));
      ASSERT_EQ(checked->output_bytes(op), made->graph.output_bytes(op));
      ASSERT_EQ(checked->is_view(op), made->graph.is_view(op));
    }
  }
  EXPECT_GT(plans, 50);
}

}  // namespace
}  // namespace emplace

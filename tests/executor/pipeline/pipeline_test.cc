// Goal: a training graph becomes a step of several micro-batches with one update, its placement a pipeline,
// and the schedules are the published ones. Method: a chain of layers by hand, with steps, orders and peaks
// by formula.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "executor/pipeline/pipeline_simulator.h"
#include "executor/sim/simulator.h"
#include "graph/training/micro_batch.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kActivation = 1000;

/// Layers of which f_k takes 2 us and b_k 3.
OpGraph layers(std::uint32_t n) { return testing::layers_step(std::vector<double>(n, 2), 1.5, kActivation); }

/// Layer k of n on device k * devices / n.
Placement stages(const OpGraph& graph, std::uint32_t n, std::uint32_t devices) {
  Placement placement(graph.num_ops());
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const std::string name{graph.name(OpId{i})};
    const std::uint32_t k = name == "in" ? 0 : static_cast<std::uint32_t>(std::stoul(name.substr(1)));
    placement[i] = static_cast<DeviceId>(k * devices / n);
  }
  return placement;
}

/// Links that cost next to nothing: a nanosecond.
DeviceSet gpus(std::size_t count) {
  return testing::sample_devices(count, false, 1 << 30, {.bytes_per_s = 1e18, .latency_s = 1e-9});
}

std::vector<std::string> order_on(const PipelineSimulator& simulator, const Placement& placement,
                                  const Strategy& strategy, std::size_t device, std::size_t devices) {
  const Chunks chunks = simulator.chunks(placement).value();
  std::vector<std::int64_t> chunk_ns;
  for (const Chunk& chunk : chunks.chunks) chunk_ns.push_back(chunk.phase == Phase::kForward ? 1 : 2);
  const PipelineOrder order = pipeline_order(chunks, strategy, devices, chunk_ns);
  std::vector<std::string> names;
  for (const std::uint32_t at : order.of_device[device]) {
    const Action& action = order.actions[at];
    const Phase phase = chunks[action.chunk].phase;
    names.push_back(std::string{phase == Phase::kForward    ? "F"
                                : phase == Phase::kBackward ? "B"
                                                            : "U"} +
                    std::to_string(action.micro_batch));
  }
  return names;
}

/// The published order of stage `s` of `stages`: stages - s forward passes, then a backward and a forward one
/// in turn.
std::vector<std::string> one_forward_one_backward(std::uint32_t s, std::uint32_t stages, std::uint32_t n) {
  std::vector<std::string> names;
  const std::uint32_t warm = std::min(n, stages - s);
  for (std::uint32_t m = 0; m < warm; ++m) names.push_back("F" + std::to_string(m));
  for (std::uint32_t m = 0; m < n; ++m) {
    names.push_back("B" + std::to_string(m));
    if (m + warm < n) names.push_back("F" + std::to_string(m + warm));
  }
  names.emplace_back("U0");
  return names;
}

TEST(MicroBatchGraph, AddsEachGradientToASumThatTheUpdateReads) {
  const OpGraph graph = layers(2);
  const auto made = micro_batch_graph(graph);
  ASSERT_TRUE(made.ok()) << made.error().context;
  std::vector<std::string> names, each;
  for (std::uint32_t i = 0; i < made->graph.num_ops(); ++i) {
    names.emplace_back(made->graph.name(OpId{i}));
    if (made->each[i]) each.push_back(names.back());
  }
  EXPECT_THAT(names, ElementsAre("in", "w0", "w1", "f0", "f1", "b1", "b1#1@gradient", "b1#1@accumulate", "b0",
                                 "b0#1@gradient", "b0#1@accumulate", "u0", "u1"));
  EXPECT_THAT(each, ElementsAre("in", "f0", "f1", "b1", "b1#1@accumulate", "b0", "b0#1@accumulate"));
  const OpId update{12};
  EXPECT_EQ(made->graph.name(made->graph.producer(made->graph.inputs(update)[1])), "b1#1@accumulate");
  EXPECT_EQ(graph.name(made->source[7]), "b1");
}

TEST(MicroBatchGraph, RefusesWhatIsNoStep) {
  const OpGraph forward = testing::sample_graph({{"w", {}, {10}, 0, 0, "Parameter"}, {"f", {{0, 0}}}});
  EXPECT_THAT(micro_batch_graph(forward).error().context,
              HasSubstr("no op of this graph has the phase backward"));
  const OpGraph back =
      testing::sample_graph({{"f"}, {"b", {{0, 0}}, {4}, 1, 1, "Work", false, Phase::kBackward}});
  EXPECT_THAT(micro_batch_graph(back).error().context, HasSubstr("no op of this graph has the phase update"));
  const OpGraph mixed = testing::sample_graph({{"u", {}, {4}, 1, 1, "Work", false, Phase::kUpdate},
                                               {"b", {{0, 0}}, {4}, 1, 1, "Work", false, Phase::kBackward}});
  EXPECT_THAT(micro_batch_graph(mixed).error().context,
              HasSubstr("op 'b': of the phase backward reads the result of op 'u' of the phase update"));
  const OpGraph twice =
      testing::sample_graph({{"b", {}, {4, 4}, 1, 1, "Work", false, Phase::kBackward},
                             {"b#1", {}, {4}, 1, 1, "Work", false, Phase::kBackward},
                             {"u", {{0, 1}, {1, 0}}, {4}, 1, 1, "Work", false, Phase::kUpdate}});
  EXPECT_THAT(check_micro_batches(twice).error().context, HasSubstr("b#1@gradient"));
  const OpGraph named = testing::sample_graph({{"x@3"}});
  EXPECT_THAT(micro_batch_graph(named).error().context,
              HasSubstr("op 'x@3': is called as what micro-batches add"));
}

TEST(PipelineOrder, IsThePublishedOne) {
  for (std::uint32_t devices = 1; devices <= 6; ++devices) {
    const OpGraph graph = layers(devices);
    const DeviceSet machine = gpus(devices);
    const Placement placement = stages(graph, devices, devices);
    for (std::uint32_t n = 1; n <= 9; ++n) {
      SCOPED_TRACE(std::to_string(devices) + " stages, " + std::to_string(n) + " micro-batches");
      const Strategy one{n, PipelineSchedule::k1F1B}, all{n, PipelineSchedule::kGPipe};
      const PipelineSimulator simulator{graph, machine, one};
      for (std::uint32_t d = 0; d < devices; ++d) {
        EXPECT_EQ(order_on(simulator, placement, one, d, devices), one_forward_one_backward(d, devices, n));
        std::vector<std::string> filled;
        for (const char* what : {"F", "B"})
          for (std::uint32_t m = 0; m < n; ++m) filled.push_back(what + std::to_string(m));
        filled.emplace_back("U0");
        EXPECT_EQ(order_on(simulator, placement, all, d, devices), filled);
      }
    }
  }
}

/// A step of uniform stages takes (n + stages - 1) forward and backward passes; then the last update runs.
/// The sums of gradients take no time on these devices.
TEST(PipelineSimulator, UniformStagesTakeTheTimeOfTheFormula) {
  constexpr std::uint32_t kStages = 4, kLayers = 8;
  const OpGraph graph = layers(kLayers);
  const DeviceSet machine = gpus(kStages);
  const Placement placement = stages(graph, kLayers, kStages);
  const auto micro_batch = micro_batch_graph(graph);
  ASSERT_TRUE(micro_batch.ok());
  const CostTable costs{micro_batch->graph, machine};
  double sum_us = 0;  // Time of adding a gradient to its sum.
  for (std::uint32_t i = 0; i < micro_batch->graph.num_ops(); ++i)
    if (micro_batch->graph.name(OpId{i}) == "b0#1@accumulate")
      sum_us = static_cast<double>(costs.ns(DeviceId{0}, OpId{i})) * 1e-3;
  ASSERT_GT(sum_us, 0);
  const double layer_us = 2 + 3 + sum_us, update_us = 2;
  for (const PipelineSchedule schedule : {PipelineSchedule::kGPipe, PipelineSchedule::k1F1B})
    for (const std::uint32_t n : {1u, 4u, 16u}) {
      PipelineSimulator simulator{graph, machine, {n, schedule}};
      Measurement step;
      ASSERT_TRUE(simulator.measure(placement, step).ok());
      EXPECT_NEAR(step.step_time_s * 1e6,
                  (n + kStages - 1) * 2 * layer_us - (kStages - 1) * sum_us + update_us, 0.2);
      EXPECT_NEAR(step.busy_s[0] * 1e6, n * 2 * layer_us + update_us, 0.01);
    }
}

/// In 1F1B, stage s keeps the activations of at most stages - s micro-batches; in GPipe, those of all.
TEST(PipelineSimulator, SchedulesDecideHowManyMicroBatchesAreInMemory) {
  constexpr std::uint32_t kStages = 4, kMicroBatches = 12;
  const OpGraph graph = layers(kStages);
  const DeviceSet machine = gpus(kStages);
  const Placement placement = stages(graph, kStages, kStages);
  Measurement one, all;
  ASSERT_TRUE(PipelineSimulator(graph, machine, {kMicroBatches, PipelineSchedule::k1F1B})
                  .measure(placement, one)
                  .ok());
  ASSERT_TRUE(PipelineSimulator(graph, machine, {kMicroBatches, PipelineSchedule::kGPipe})
                  .measure(placement, all)
                  .ok());
  for (std::uint32_t s = 1; s < kStages; ++s) {
    // Three more: one that has arrived early, and what the running op reads and makes.
    EXPECT_EQ(one.peak_bytes[s] / kActivation, kStages - s + 3) << s;
    EXPECT_GE(all.peak_bytes[s] / kActivation, kMicroBatches) << s;
  }
}

}  // namespace
}  // namespace emplace

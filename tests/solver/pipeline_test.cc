// Goal: the split into stages is the best one for a chain of layers, and follows memory and unlike devices.
// Method: layers by hand, whose best cuts are known.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "executor/pipeline/pipeline_simulator.h"
#include "graph/copied_op.h"
#include "solver/pipeline/pipeline_search.h"
#include "solver/pipeline/stage_split.h"
#include "solver/pipeline/strategy_search.h"
#include "tests/support/manual_clock.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

struct Split {
  std::vector<std::size_t> device_of_layer;
  Measurement measured;
};
Split split(const OpGraph& graph, std::size_t layers, const DeviceSet& devices, const Strategy& strategy) {
  const auto constraints = Constraints::make(graph, devices);
  EXPECT_TRUE(constraints.ok());
  const CostTable costs{graph, devices};
  const Problem problem{graph, devices, *constraints, costs};
  PipelineSimulator simulator{graph, devices, strategy};
  const auto answer = StageSplit{strategy}.find(problem, simulator);
  EXPECT_TRUE(answer.ok());
  Split result{std::vector<std::size_t>(layers), answer->measurement};
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const std::string name{graph.name(OpId{i})};
    if (name == "in") continue;
    const std::size_t layer = std::stoul(name.substr(1)), device = index(answer->placement[i]);
    // Weights come before the forward pass, backward pass and update behind it.
    if (name[0] == 'f') {
      result.device_of_layer[layer] = device;
    } else if (name[0] != 'w') {
      EXPECT_EQ(device, result.device_of_layer[layer]) << name;
    }
  }
  return result;
}

TEST(StageSplit, CutsLayersByTheirTime) {
  const std::vector<double> us{400, 100, 100, 100, 100, 200, 200};
  const DeviceSet devices = testing::sample_devices(3, false, 1 << 30);
  const Split found =
      split(testing::layers_step(us, 2, 1000), us.size(), devices, {16, PipelineSchedule::k1F1B});
  EXPECT_EQ(found.device_of_layer, (std::vector<std::size_t>{0, 1, 1, 1, 1, 2, 2}));
  EXPECT_TRUE(found.measured.valid);
}

TEST(StageSplit, GivesAllToOneDeviceIfCopiesTakeLonger) {
  const std::vector<double> us{10, 10, 10, 10};
  const DeviceSet devices =
      testing::sample_devices(2, false, 1 << 30, {.bytes_per_s = 1e6, .latency_s = 1e-3});
  const Split found =
      split(testing::layers_step(us, 2, 1000), us.size(), devices, {4, PipelineSchedule::k1F1B});
  EXPECT_EQ(found.device_of_layer, (std::vector<std::size_t>{0, 0, 0, 0}));
}

/// With one stage per device, a step of two micro-batches takes three times that of a stage. With two, the
/// second device waits for half as long.
TEST(StageSplit, LetsDevicesTakeTurnsInShortPipelines) {
  const std::vector<double> us(8, 100);
  const DeviceSet devices =
      testing::sample_devices(2, false, 1 << 30, {.bytes_per_s = 1e12, .latency_s = 1e-7});
  const Split found =
      split(testing::layers_step(us, 2, 1000), us.size(), devices, {2, PipelineSchedule::k1F1B});
  const double stage_s = 4 * 3 * 100e-6;
  EXPECT_LT(found.measured.step_time_s, 2.8 * stage_s);
  EXPECT_GT(found.measured.step_time_s, 2 * stage_s);
  EXPECT_EQ(std::ranges::count(found.device_of_layer, 0u), 4);
}

/// The first stage holds twice as many micro-batches as the last one. By time alone the cut is in the middle,
/// where the first stage does not fit.
TEST(StageSplit, FollowsTheMemoryOfMicroBatchesInFlight) {
  const std::vector<double> us(8, 100);
  constexpr std::int64_t kActivation = 1'000'000;
  const OpGraph graph = testing::layers_step(us, 2, kActivation);
  const Strategy strategy{16, PipelineSchedule::k1F1B};
  const Split free = split(graph, us.size(), testing::sample_devices(2, false, 1 << 30), strategy);
  EXPECT_EQ(free.device_of_layer, (std::vector<std::size_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  const std::int64_t less = free.measured.peak_bytes[0] - kActivation / 2;
  const Split tight = split(graph, us.size(), testing::sample_devices(2, false, less), strategy);
  EXPECT_TRUE(tight.measured.valid);
  EXPECT_LT(std::ranges::count(tight.device_of_layer, 0u), 4);
}

/// What `find` answers to the problem of a graph and a machine, by heuristics alone.
template <class Find>
Answer answer_of(const OpGraph& graph, const DeviceSet& devices, const Strategy& asked, Find find) {
  const auto constraints = Constraints::make(graph, devices);
  EXPECT_TRUE(constraints.ok());
  const CostTable costs{graph, devices};
  Problem problem{graph, devices, *constraints, costs};
  const ManualClock clock;
  problem.context.clock = &clock;
  problem.context.deadline = clock.now() + std::chrono::seconds{1};
  problem.context.searches = false;
  Judge judge;
  judge.strategy = asked;
  Result<Answer> answer = find(problem, judge);
  EXPECT_TRUE(answer.ok());
  return *std::move(answer);
}

Answer strategy_for(const OpGraph& graph, const DeviceSet& devices, const Strategy& asked) {
  Answer answer = answer_of(graph, devices, asked, [](const Problem& problem, const Judge& judge) {
    return search_strategies({}, problem, judge, {});
  });
  EXPECT_TRUE(answer.strategy.has_value());
  PipelineSimulator simulator{graph, devices, *answer.strategy};
  Measurement again;
  EXPECT_TRUE(simulator.measure(answer.placement, again).ok());
  EXPECT_EQ(again, answer.measurement);
  return answer;
}

TEST(SearchStrategies, ReplicatesWhatFitsAndCutsWhatDoesNot) {
  const std::vector<double> us(8, 200);
  const OpGraph graph = testing::layers_step(us, 2, 1000);
  const Strategy asked{16};
  // Small gradients, and room for all layers: four copies.
  const Answer copies = strategy_for(graph, testing::sample_devices(4, false, 1 << 30), asked);
  EXPECT_EQ(copies.strategy->num_replicas(), 4u);
  // All weights take 800 bytes, and as much for the sums of their gradients: with half of the layers on a
  // device, two copies fit.
  const Answer halves = strategy_for(graph, testing::sample_devices(4, false, 10'000), asked);
  EXPECT_TRUE(halves.measurement.valid);
  EXPECT_LT(halves.strategy->num_replicas(), 4u);
  EXPECT_GT(halves.measurement.step_time_s, copies.measurement.step_time_s);
  // A slow link makes the exchange of gradients longer than a pipeline fills and drains.
  const Answer stages = strategy_for(
      testing::layers_step(us, 2, 1),
      testing::sample_devices(4, false, 1 << 30, {.bytes_per_s = 1e5, .latency_s = 1e-6}), asked);
  EXPECT_EQ(stages.strategy->num_replicas(), 1u);
}

TEST(SearchStrategies, SharesByTheSpeedOfUnlikeDevices) {
  std::vector<Device> both{{"gpu:0", *find_profile("k40"), 1 << 30, ""},
                           {"gpu:1", *find_profile("v100"), 1 << 30, ""}};
  const auto devices = DeviceSet::make(std::move(both), Link{.bytes_per_s = 1e12, .latency_s = 1e-6});
  ASSERT_TRUE(devices.ok());
  const OpGraph chain = testing::layers_step(std::vector<double>(4, 1), 2, 1000);
  OpGraphBuilder builder;
  builder.set_name("products");
  for (std::uint32_t i = 0; i < chain.num_ops(); ++i) {
    OpSpec op = copied_op(chain, OpId{i});
    op.measured_us.clear();
    if (op.type == "Work") {
      op.type = "aten::mm";
      op.flops = 1'000'000'000;
    }
    builder.add(std::move(op));
  }
  const OpGraph graph = std::move(builder).build().value();
  Strategy asked{8};
  asked.replicas = *consecutive_groups(*devices, 2);
  const Answer found = strategy_for(graph, *devices, asked);
  ASSERT_EQ(found.strategy->shares.size(), 2u);
  EXPECT_EQ(found.strategy->shares[0] + found.strategy->shares[1], 8u);
  EXPECT_GT(found.strategy->shares[1], found.strategy->shares[0]);
}

/// Blocks of two kernels each, of which the first one makes 8,000 bytes for the second one and for the
/// backward pass.
OpGraph blocks(std::uint32_t n) {
  std::vector<testing::SampleOp> ops{{"in", {}, {10}, 0, 0, "Input"}};
  for (std::uint32_t k = 0; k < n; ++k) {
    const std::uint32_t read = static_cast<std::uint32_t>(ops.size()) - 1;
    ops.push_back({"w" + std::to_string(k), {}, {100}, 0, 0, "Parameter"});
    ops.push_back({"a" + std::to_string(k), {{k == 0 ? 0 : read, 0}, {read + 1, 0}}, {8000}, 100, 100});
    ops.push_back({"f" + std::to_string(k), {{read + 2, 0}}, {100}, 100, 100});
  }
  for (std::uint32_t k = n; k-- > 0;) {
    const std::uint32_t last = static_cast<std::uint32_t>(ops.size()) - 1, wide = 2 + 3 * k;
    ops.push_back({"b" + std::to_string(k),
                   {{last, 0}, {wide, 0}, {wide - 1, 0}},
                   {100, 100},
                   400,
                   400,
                   "Work",
                   false,
                   Phase::kBackward});
  }
  const auto back = static_cast<std::uint32_t>(ops.size()) - n;
  for (std::uint32_t k = 0; k < n; ++k)
    ops.push_back({"u" + std::to_string(k),
                   {{1 + 3 * k, 0}, {back + n - 1 - k, 1}},
                   {100},
                   1,
                   1,
                   "Work",
                   false,
                   Phase::kUpdate});
  const OpGraph graph = testing::sample_graph(ops);
  OpGraphBuilder builder;
  builder.set_name("blocks");
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    OpSpec op = copied_op(graph, OpId{i});
    op.group = op.name == "in" ? "" : "layer/" + op.name.substr(1);
    builder.add(std::move(op));
  }
  return std::move(builder).build().value();
}

TEST(SearchPipelines, RunsOnlyTheBlocksAgainThatDoNotFit) {
  const OpGraph graph = blocks(8);
  const auto planned_at = [&](std::int64_t memory) {
    const DeviceSet devices = testing::sample_devices(2, false, memory);
    Answer answer = answer_of(graph, devices, Strategy{8}, [&](const Problem& problem, const Judge& judge) {
      const auto model = make_model(graph, devices, judge);
      return search_pipelines({}, problem, judge, *model, {.recompute = true});
    });
    EXPECT_TRUE(answer.measurement.valid);
    return answer;
  };
  // The first of two stages of four blocks holds two micro-batches: 64,000 bytes.
  const Answer tight = planned_at(14'000), middle = planned_at(40'000);
  EXPECT_GT(middle.plan.recompute.size(), 0u);
  EXPECT_LT(middle.plan.recompute.size(), tight.plan.recompute.size());
  EXPECT_LT(middle.measurement.step_time_s, tight.measurement.step_time_s);
}

}  // namespace
}  // namespace emplace

// Goal: the split into stages is the best one for a chain of layers, and follows memory and unlike devices.
// Method: layers by hand, whose best cuts are known.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "executor/pipeline/pipeline_simulator.h"
#include "solver/pipeline/stage_split.h"
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

}  // namespace
}  // namespace emplace

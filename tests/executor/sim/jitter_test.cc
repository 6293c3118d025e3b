// Goal: without noise, steps are the model's; with noise, they are a function of seed and draw, and vary
// according to the equations of docs/reference/measurement.md ("Jitter"). Method: random graphs beside the
// simulator, and small graphs whose noisy steps are known.
#include "executor/sim/jitter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using testing::layered_graph;
using testing::random_graph;
using testing::sample_devices;
using testing::sample_graph;
using testing::SampleOp;
using testing::with_random_sharing;

constexpr DeviceId kDev0{0}, kDev1{1}, kDev2{2};
constexpr std::int64_t kAmpleBytes = std::int64_t{1} << 40;
constexpr Jitter kNoNoise{.times = 0, .ties = false};

JitteredSteps steps_of(const OpGraph& graph, const DeviceSet& devices, const Placement& placement,
                       const Jitter& jitter, std::uint32_t draws, Dispatch dispatch = Dispatch::kProgram) {
  JitteredSimulator simulator{graph, devices, dispatch, jitter};
  auto steps = simulator.measure_draws(placement, draws);
  EXPECT_TRUE(steps.ok());
  return *std::move(steps);
}

/// A chain of ops that take 1 us, 2 us, … on one device.
OpGraph growing_chain(std::uint32_t ops) {
  std::vector<SampleOp> list;
  for (std::uint32_t k = 0; k < ops; ++k) {
    SampleOp op{.name = "op" + std::to_string(k), .gpu_us = 1.0 + k};
    if (k > 0) op.inputs = {{k - 1, 0}};
    list.push_back(op);
  }
  return sample_graph(list);
}

TEST(Jitter, WithoutNoiseStepsEqualTheModelBitForBit) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph = random_graph(rng, 60);
    const DeviceSet devices = with_random_sharing(rng, sample_devices(3, true, 400));
    for (const Dispatch dispatch : {Dispatch::kProgram, Dispatch::kFifo}) {
      Simulator model{graph, devices, {.dispatch = dispatch}};
      JitteredSimulator jittered{graph, devices, dispatch, kNoNoise};
      for (std::uint32_t draw = 0; draw < 3; ++draw) {
        const Placement placement = testing::random_placement(rng, graph.num_ops(), devices.size());
        Measurement expected, measured;
        ASSERT_TRUE(model.measure(placement, expected).ok());
        ASSERT_TRUE(jittered.measure(placement, draw, measured).ok());
        EXPECT_EQ(measured, expected);
      }
    }
  }
}

TEST(Jitter, StepIsAFunctionOfSeedAndDraw) {
  Rng rng{1, Purpose::kTest};
  const OpGraph graph = layered_graph(rng, 300);
  const DeviceSet devices = sample_devices(3, false, kAmpleBytes);
  const Placement placement = testing::random_placement(rng, graph.num_ops(), devices.size());
  JitteredSimulator one{graph, devices, Dispatch::kProgram, {.seed = 5}};
  JitteredSimulator other{graph, devices, Dispatch::kProgram, {.seed = 5}};
  JitteredSimulator reseeded{graph, devices, Dispatch::kProgram, {.seed = 6}};
  Measurement forward, backward, elsewhere;
  double last = 0;
  for (std::uint32_t draw = 0; draw < 10; ++draw) {
    ASSERT_TRUE(one.measure(placement, draw, forward).ok());
    // Draws in another order, between steps of another placement.
    ASSERT_TRUE(
        other.measure(testing::random_placement(rng, graph.num_ops(), devices.size()), 9 - draw, backward)
            .ok());
    ASSERT_TRUE(other.measure(placement, draw, backward).ok());
    ASSERT_TRUE(reseeded.measure(placement, draw, elsewhere).ok());
    EXPECT_EQ(forward, backward);
    EXPECT_NE(forward.step_time_s, elsewhere.step_time_s);
    EXPECT_NE(forward.step_time_s, last);
    last = forward.step_time_s;
  }
  EXPECT_EQ(one.measure_draws(placement, 4, 3)->steps_s, other.measure_draws(placement, 4, 3)->steps_s);
}

TEST(Jitter, FactorsAreBoundedWithMeanOneAndTheRequestedDeviation) {
  const OpGraph graph = sample_graph({{.name = "a", .gpu_us = 1e6}});
  const DeviceSet devices = sample_devices(1, false, kAmpleBytes);
  for (const double times : {0.01, 0.05, Jitter::kMost}) {
    constexpr std::uint32_t kDraws = 20'000;
    const auto steps = steps_of(graph, devices, {kDev0}, {.times = times}, kDraws).steps_s;
    double sum = 0, squares = 0;
    for (const double step : steps) sum += step - 1, squares += (step - 1) * (step - 1);
    EXPECT_NEAR(sum / kDraws, 0, 4 * times / std::sqrt(kDraws));
    EXPECT_NEAR(std::sqrt(squares / kDraws), times, 0.03 * times);
    EXPECT_GE(steps.front(), 1 - 2 * std::sqrt(3) * times);
    EXPECT_LE(steps.back(), 1 + 2 * std::sqrt(3) * times);
  }
}

TEST(Jitter, SpreadOfOneDeviceIsThatOfTheSumOfItsOps) {
  // Independent factors: the variance of the step is sum of (times * op time)^2.
  const OpGraph graph = growing_chain(40);
  const DeviceSet devices = sample_devices(2, false, kAmpleBytes);
  constexpr std::uint32_t kDraws = 4'000;
  const double nominal = 820e-6;
  double squares = 0;
  for (int k = 1; k <= 40; ++k) squares += k * k * 1e-12;
  const double deviation = 0.05 * std::sqrt(squares);
  const JitteredSteps steps = steps_of(graph, devices, Placement(40, kDev0), {}, kDraws);
  const double mean = std::accumulate(steps.steps_s.begin(), steps.steps_s.end(), 0.0) / kDraws;
  EXPECT_NEAR(mean, nominal, 4 * deviation / std::sqrt(kDraws));
  EXPECT_NEAR(steps.quantile(0.95) - nominal, 1.645 * deviation, 0.1 * deviation);
  EXPECT_NEAR(steps.quantile(0.5), nominal, 0.1 * deviation);
}

TEST(Jitter, HighPercentilesGrowWithTheNoise) {
  Rng rng{3, Purpose::kTest};
  const OpGraph layers = layered_graph(rng, 400), line = growing_chain(50);
  for (const OpGraph* graph : {&layers, &line}) {
    const DeviceSet devices = sample_devices(3, false, kAmpleBytes);
    const Placement placement = graph == &line
                                    ? Placement(50, kDev0)
                                    : testing::random_placement(rng, graph->num_ops(), devices.size());
    double last = 0;
    for (const double times : {0.0, 0.02, 0.05, 0.1, 0.25}) {
      const double p95 = steps_of(*graph, devices, placement, {.times = times}, 200).quantile(0.95);
      EXPECT_GT(p95, last) << times;
      last = p95;
    }
  }
}

TEST(Jitter, TiesAloneReorderSimultaneousCopies) {
  // a (1 us) sends 5000 bytes to B, whose reader takes 20 us, and 5000 to C, whose reader takes 1 us. A copy
  // takes 6 us: the step is 1 + 6 + 20 us if B's copy is first, and 6 us more if it is second.
  const OpGraph graph =
      sample_graph({{"a", {}, {5000}, 1}, {"long", {{0, 0}}, {1}, 20}, {"short", {{0, 0}}, {1}, 1}});
  const DeviceSet devices = sample_devices(3, false, kAmpleBytes);
  const JitteredSteps steps = steps_of(graph, devices, {kDev0, kDev1, kDev2}, {.times = 0}, 200);
  std::map<double, int> seen;
  for (const double step : steps.steps_s) ++seen[std::round(step * 1e9)];
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_NEAR(seen[27'000], 100, 40);
  EXPECT_NEAR(seen[33'000], 100, 40);
  EXPECT_DOUBLE_EQ(steps_of(graph, devices, {kDev0, kDev0, kDev0}, {.times = 0}, 20).quantile(1), 22e-6)
      << "no queue, no ties";
}

TEST(Jitter, TiesAloneReorderSimultaneousOpsInFifoDispatch) {
  // x and y are ready at the start; y's reader is on another device and long.
  const OpGraph graph = sample_graph({{"x", {}, {1}, 5}, {"y", {}, {0}, 5}, {"z", {{1, 0}}, {0}, 20}});
  const DeviceSet devices = sample_devices(2, false, kAmpleBytes);
  const Jitter ties{.times = 0};
  const JitteredSteps fifo = steps_of(graph, devices, {kDev0, kDev0, kDev1}, ties, 100, Dispatch::kFifo);
  EXPECT_NEAR(fifo.steps_s.front(), 26e-6, 2e-9);
  EXPECT_NEAR(fifo.steps_s.back(), 31e-6, 2e-9);
  const JitteredSteps program = steps_of(graph, devices, {kDev0, kDev0, kDev1}, ties, 100);
  EXPECT_EQ(program.steps_s.front(), program.steps_s.back()) << "ids determine the order, so there is no tie";
}

TEST(Jitter, NoiseOfAnOpDoesNotDependOnThePlacement) {
  // The chain determines the step; the device of the last op has no effect.
  std::vector<SampleOp> ops{{"a", {}, {1}, 50}, {"b", {{0, 0}}, {1}, 60}, {"free", {}, {1}, 1}};
  const OpGraph graph = sample_graph(ops);
  const DeviceSet devices = sample_devices(3, false, kAmpleBytes);
  EXPECT_EQ(steps_of(graph, devices, {kDev0, kDev0, kDev1}, {}, 50).steps_s,
            steps_of(graph, devices, {kDev1, kDev1, kDev2}, {}, 50).steps_s);
}

TEST(Jitter, CountsDrawsThatDoNotFit) {
  // On the third device "first" holds p's copy and its own output, 200 bytes, from 6.1 to 7.1 us. The copy of
  // q's output starts at 7.1 us: noise determines whether it is there, too.
  const OpGraph graph = sample_graph({{"p", {}, {100}, 5},
                                      {"q", {}, {100}, 7.1},
                                      {"first", {{0, 0}}, {100}, 1},
                                      {"second", {{1, 0}}, {1}, 1}});
  const Placement placement{kDev0, kDev1, kDev2, kDev2};
  const std::uint32_t draws = 200;
  const auto over = [&](std::int64_t memory) {
    return steps_of(graph, sample_devices(3, false, memory), placement, {}, draws).over;
  };
  EXPECT_EQ(over(kAmpleBytes), 0u);
  EXPECT_EQ(over(50), draws) << "never fits";
  const std::uint32_t some = over(250);
  EXPECT_GT(some, 0u);
  EXPECT_LT(some, draws);
}

TEST(Jitter, QuantilesAreOrderStatistics) {
  const JitteredSteps steps{.steps_s = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};
  EXPECT_EQ(steps.quantile(0.5), 5);
  EXPECT_EQ(steps.quantile(0.9), 9);
  EXPECT_EQ(steps.quantile(0.95), 10);
  EXPECT_EQ(steps.quantile(1), 10);
  EXPECT_EQ(JitteredSteps{.steps_s = {7}}.quantile(0.01), 7);
}

TEST(Jitter, RefusesAPlacementOfAnotherGraph) {
  const OpGraph graph = growing_chain(3);
  const DeviceSet devices = sample_devices(1, false, kAmpleBytes);
  JitteredSimulator simulator{graph, devices, Dispatch::kProgram, {}};
  EXPECT_EQ(simulator.measure_draws(Placement(2, kDev0), 1).error().code, Errc::kInvalid);
  EXPECT_EQ(simulator.measure_draws(Placement{kDev0, kDev1, kDev0}, 1).error().code, Errc::kInvalid);
}

}  // namespace
}  // namespace emplace

// Goal: a step that is timed for a search takes the time and the memory that a whole step takes, bit for bit,
// and is given up only if it takes longer than the limit. Method: random placements and moves on random
// graphs with views, state, parts and updates, on layered ones and on a real net, with limits around the
// step's time; machines and orders that it does not support.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "executor/sim/simulator.h"
#include "executor/sim/step_tables.h"
#include "executor/sim/timed_step.h"
#include "graph/graph_file.h"
#include "placement/machine/device_file.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using testing::sample_devices;

/// Compares `placement` under limits from a tenth of its step time to no limit, in random order. The exact
/// time is within the limit.
void expect_same(Simulator& whole, Simulator& timed, Rng& rng, const Placement& placement) {
  Measurement measured;
  ASSERT_TRUE(whole.measure(placement, measured).ok());
  std::vector<double> limits{0,
                             measured.step_time_s * 0.1,
                             measured.step_time_s * 0.7,
                             measured.step_time_s * 0.99,
                             measured.step_time_s - 1e-9,
                             measured.step_time_s,
                             measured.step_time_s * 1.01,
                             std::numeric_limits<double>::infinity()};
  rng.shuffle(limits);
  for (const double limit_s : limits) {
    SCOPED_TRACE(limit_s / measured.step_time_s);
    const auto cost = timed.measure_within(placement, limit_s);
    ASSERT_TRUE(cost.ok());
    ASSERT_EQ(cost->has_value(), measured.step_time_s <= limit_s);
    if (!cost->has_value()) continue;
    ASSERT_EQ((*cost)->step_time_s, measured.step_time_s);
    ASSERT_EQ((*cost)->bytes_over, measured.bytes_over);
  }
}

void walk(const OpGraph& graph, const DeviceSet& devices, Rng& rng, int moves,
          SimulatorOptions options = {}) {
  Simulator whole{graph, devices, options}, timed{graph, devices, options};
  const auto ops = static_cast<std::uint32_t>(graph.num_ops());
  Placement placement = testing::random_placement(rng, ops, devices.size());
  for (int k = 0; k < moves; ++k) {
    expect_same(whole, timed, rng, placement);
    if (::testing::Test::HasFatalFailure()) return;
    if (rng.below(10) == 0) {
      placement = testing::random_placement(rng, ops, devices.size());
    } else {
      const auto to = static_cast<DeviceId>(rng.below(static_cast<std::uint32_t>(devices.size())));
      const std::uint32_t first = rng.below(ops), length = 1 + rng.below(ops);
      for (std::uint32_t op = first; op < std::min(first + length, ops); ++op) placement[op] = to;
    }
  }
}

TEST(TimedStep, EqualsAWholeStepOnRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 1};
    const OpGraph graph = testing::random_graph(rng, 20 + rng.below(300));
    const DeviceSet devices =
        sample_devices(1 + rng.below(5), rng.below(2) == 0, 40'000,
                       {.bytes_per_s = rng.below(2) == 0 ? 1e9 : 1e7, .latency_s = 1e-6});
    walk(graph, devices, rng, 12);
    if (HasFatalFailure()) return;
  }
}

TEST(TimedStep, EqualsAWholeStepOnLayeredGraphs) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 2};
    const OpGraph graph = testing::layered_graph(rng, 6000);
    walk(graph, sample_devices(2 + rng.below(31), false, 1'000'000), rng, 8);
    if (HasFatalFailure()) return;
  }
}

TEST(TimedStep, EqualsAWholeStepOnARealNet) {
  const std::filesystem::path configs = std::filesystem::path{EMPLACE_SOURCE_DIR} / "configs";
  const OpGraph graph = load_graph(configs / "graphs/nmt-2layer-bs64.json.gz").value();
  const DeviceSet devices = load_devices(configs / "devices/quickstart.toml", 0).value();
  Rng rng{7, Purpose::kTest, 3};
  walk(graph, devices, rng, 15);
}

TEST(TimedStep, LeavesOtherMachinesToTheWholeStep) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 4};
    const OpGraph graph = testing::random_graph(rng, 20 + rng.below(100));
    const DeviceSet plain = sample_devices(3, false, 40'000, {.bytes_per_s = 1e8, .latency_s = 1e-6});
    ASSERT_TRUE(simulated::TimedStep::supports({graph, plain}));
    const DeviceSet corun = plain.with_corun(1.5), shared = testing::with_random_sharing(rng, plain, true);
    EXPECT_FALSE(simulated::TimedStep::supports({graph, corun}));
    walk(graph, corun, rng, 5);
    walk(graph, shared, rng, 5);
    walk(graph, plain, rng, 5, {.dispatch = Dispatch::kFifo});
    const DeviceSet many = sample_devices(simulated::TimedStep::kMostDevices + 1, false, 40'000);
    EXPECT_FALSE(simulated::TimedStep::supports({graph, many}));
    walk(graph, many, rng, 2);
    if (HasFatalFailure()) return;
  }
}

TEST(TimedStep, FollowsChangesOfTheOrder) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 5};
    const OpGraph graph = testing::random_graph(rng, 100);
    const DeviceSet devices = sample_devices(3, false, 40'000);
    Simulator whole{graph, devices}, timed{graph, devices};
    std::vector<OpId> order(graph.num_ops());
    for (std::uint32_t op = 0; op < order.size(); ++op) order[op] = OpId{op};
    for (int k = 0; k < 6; ++k) {
      rng.shuffle(order);
      const std::span<const OpId> now = k % 3 == 2 ? std::span<const OpId>{} : order;
      ASSERT_TRUE(whole.set_order(now).ok());
      ASSERT_TRUE(timed.set_order(now).ok());
      expect_same(whole, timed, rng, testing::random_placement(rng, graph.num_ops(), devices.size()));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(TimedStep, RefusesWhatAMeasurementRefuses) {
  const OpGraph graph = testing::random_graph(1, 10);
  const DeviceSet devices = sample_devices(2, false, 40'000);
  Simulator simulator{graph, devices};
  EXPECT_EQ(simulator.measure_within(Placement(9, DeviceId{0}), 1).error().code, Errc::kInvalid);
  EXPECT_EQ(simulator.measure_within(Placement(10, DeviceId{2}), 1).error().code, Errc::kInvalid);
}

/// The limit is not only compared with the end: with half of the work's time no event is simulated.
TEST(TimedStep, EndsBeforeTheStepDoes) {
  Rng rng{3, Purpose::kTest, 6};
  const OpGraph graph = testing::layered_graph(rng, 3000);
  const DeviceSet devices = sample_devices(2, false, std::int64_t{1} << 40);
  const StepTables tables{graph, devices};
  simulated::TimedStep step{tables};
  const Placement placement(graph.num_ops(), DeviceId{1});
  ASSERT_TRUE(step.run(placement, std::numeric_limits<std::int64_t>::max()));
  const std::int64_t whole_ns = step.end_ns();
  EXPECT_FALSE(step.run(placement, whole_ns / 2));
  EXPECT_EQ(step.simulated_ns(), 0);
  const Placement dealt = testing::random_placement(rng, graph.num_ops(), devices.size());
  ASSERT_TRUE(step.run(dealt, std::numeric_limits<std::int64_t>::max()));
  const std::int64_t dealt_ns = step.end_ns();
  EXPECT_FALSE(step.run(dealt, dealt_ns * 9 / 10));
  EXPECT_LT(step.simulated_ns(), dealt_ns * 9 / 10);
}

}  // namespace
}  // namespace emplace

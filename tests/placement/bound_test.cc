// Goal: the lower bound is never above what some placement reaches, and is tight where the optimum is known.
// Method: every placement of small random graphs (views, state, co-location and updates in them) in the
// simulator, with memory without limit and links that cost nothing, which is when placements are fastest.

#include "placement/bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "executor/simulator.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using testing::random_graph;
using testing::sample_devices;
using testing::sample_graph;
using testing::SampleOp;

constexpr Link kFree{.bytes_per_s = 1e18, .latency_s = 0};
constexpr std::int64_t kPlenty = std::int64_t{1} << 40;

LowerBound bound_of(const OpGraph& graph, const DeviceSet& devices) {
  return lower_bound(graph, devices, Constraints::make(graph, devices).value(), CostTable{graph, devices});
}

double best_of_all(const OpGraph& graph, const DeviceSet& devices) {
  const Constraints constraints = Constraints::make(graph, devices).value();
  Simulator simulator{graph, devices};
  Measurement measured;
  double best_s = std::numeric_limits<double>::infinity();
  Placement placement(graph.num_ops(), DeviceId{0});
  for (;;) {
    Placement obedient = placement;
    if (constraints.repair(obedient) == 0) {
      EXPECT_TRUE(simulator.measure(placement, measured).ok());
      best_s = std::min(best_s, measured.step_time_s);
    }
    std::size_t digit = 0;  // Counts up in base `devices`.
    while (digit < placement.size() && index(placement[digit]) + 1 == devices.size())
      placement[digit++] = DeviceId{0};
    if (digit == placement.size()) return best_s;
    placement[digit] = static_cast<DeviceId>(index(placement[digit]) + 1);
  }
}

TEST(LowerBound, IsNeverAboveTheBestOfAllPlacements) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph = random_graph(rng, 5 + rng.below(4));
    const DeviceSet devices = sample_devices(1 + rng.below(2), /*cpu=*/true, kPlenty, kFree);
    const LowerBound bound = bound_of(graph, devices);
    const double best_s = best_of_all(graph, devices);
    EXPECT_LE(bound.seconds(), best_s) << "seed " << seed;
    EXPECT_GT(best_s, 0) << "seed " << seed;
  }
}

TEST(LowerBound, OfAChainIsItsPathOnTheFastestDevices) {
  const OpGraph graph = sample_graph({{.name = "a", .gpu_us = 10, .cpu_us = 30},
                                      {.name = "b", .inputs = {{0, 0}}, .gpu_us = 40, .cpu_us = 20}});
  const LowerBound bound = bound_of(graph, sample_devices(1, true, kPlenty));
  EXPECT_DOUBLE_EQ(bound.path_s, 30e-6);
  EXPECT_EQ(bound.which(), "critical path");
}

TEST(LowerBound, OfIndependentWorkIsTheWorkDividedBySpeed) {
  std::vector<SampleOp> ops;
  for (int i = 0; i < 40; ++i) ops.push_back({.name = "op" + std::to_string(i), .gpu_us = 10, .cpu_us = 30});
  // Two GPUs and a CPU of a third of the speed: 400 us of GPU work at a rate of 2 + 1/3.
  const LowerBound bound = bound_of(sample_graph(ops), sample_devices(2, true, kPlenty));
  EXPECT_NEAR(bound.work_s, 400e-6 / (2 + 1.0 / 3), 0.005 * bound.work_s);
  EXPECT_LE(bound.work_s, 400e-6 / (2 + 1.0 / 3));
  EXPECT_EQ(bound.which(), "total work");
}

TEST(LowerBound, KnowsThatSomeOpsSuitOneKindOnly) {
  // One op is fast on each kind: the optimum puts each at home and takes 10 us.
  const OpGraph graph = sample_graph(
      {{.name = "a", .gpu_us = 10, .cpu_us = 1000}, {.name = "b", .gpu_us = 1000, .cpu_us = 10}});
  const LowerBound bound = bound_of(graph, sample_devices(1, true, kPlenty));
  EXPECT_NEAR(bound.work_s, 10e-6, 0.1e-6);
}

}  // namespace
}  // namespace emplace

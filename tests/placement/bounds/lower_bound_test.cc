// Goal: the lower bound is never above the step time of any placement, and is tight where the optimum is
// known. Method: every placement of small random graphs (views, state, co-location and updates in them) on
// devices that differ in speed, memory and links, under random rules, in the simulator, in both dispatch
// orders.

#include "placement/bounds/lower_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>

#include "executor/sim/simulator.h"
#include "placement/applied_rules.h"
#include "tests/support/all_placements.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using testing::random_graph;
using testing::sample_devices;
using testing::sample_graph;
using testing::SampleOp;

constexpr Link kFree{.bytes_per_s = 1e18, .latency_s = 0};
constexpr std::uint64_t kSeeds = 3000;
constexpr std::int64_t kPlenty = std::int64_t{1} << 40;

LowerBound bound_of(const OpGraph& graph, const DeviceSet& devices) {
  return lower_bound(graph, devices, Constraints::make(graph, devices).value(), CostTable{graph, devices});
}

/// Ops that suit one kind or the other, many of them joins, with weights that several read.
OpGraph knotty_graph(Rng& rng, std::uint32_t ops) {
  std::vector<SampleOp> list;
  const std::uint32_t weights = rng.below(3);
  for (std::uint32_t i = 0; i < ops; ++i) {
    SampleOp op{.name = "op" + std::to_string(i)};
    op.gpu_us = rng.below(5) == 0 ? 0 : 1 + rng.below(20);
    op.cpu_us = rng.below(5) == 0 ? 0 : 1 + rng.below(20);
    op.output_bytes = {1 + rng.below(rng.below(2) == 0 ? 100 : 9000)};
    if (i < weights) {
      op.type = "Parameter";
    } else if (i > weights) {
      for (std::uint32_t k = 0, count = 1 + rng.below(4); k < count; ++k)
        op.inputs.push_back({rng.below(i), 0});
      op.view = rng.below(8) == 0;
      if (weights > 0 && rng.below(6) == 0) op.phase = Phase::kUpdate, op.colocate = OpId{rng.below(weights)};
    }
    list.push_back(std::move(op));
  }
  return sample_graph(list);
}

/// The fastest valid placement; infinite if none fits.
double best_of_all(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                   Dispatch dispatch) {
  Simulator simulator{graph, devices, {.dispatch = dispatch}};
  Measurement measured;
  double best_s = std::numeric_limits<double>::infinity();
  testing::for_each_placement(devices.size(), constraints, [&](const Placement& placement) {
    EXPECT_TRUE(simulator.measure(placement, measured).ok());
    if (measured.valid) best_s = std::min(best_s, measured.step_time_s);
  });
  return best_s;
}

/// One to three devices that differ in kind, memory and links; costs in the graph are by kind, so that a
/// third of them use the roofline model instead.
DeviceSet random_devices(Rng& rng) {
  std::vector<Device> devices;
  const std::uint32_t count = 1 + rng.below(3);
  const bool tight = rng.below(2) == 0;
  constexpr std::array<const char*, 4> kProfiles{"k40", "haswell18", "v100", "k40"};
  for (std::uint32_t d = 0; d < count; ++d) {
    devices.push_back({"d:" + std::to_string(d), *find_profile(kProfiles[rng.below(4)]),
                       tight ? 4000 + rng.below(16000) : kPlenty, ""});
  }
  std::vector<Link> links;
  const std::uint32_t slowness = rng.below(3);
  for (std::uint32_t i = 0; i < count * count; ++i) {
    links.push_back({.bytes_per_s = (1 + rng.below(50)) * (slowness == 0 ? 1e9 : 1e8),
                     .latency_s = rng.below(20) * (slowness == 2 ? 1e-6 : 1e-7)});
  }
  return *DeviceSet::make(std::move(devices), std::move(links));
}

/// Random rules for a graph: pins and labels.
Constraints random_constraints(Rng& rng, const OpGraph& graph, const DeviceSet& devices) {
  RuleSet rules;
  if (rng.below(3) == 0) {
    const std::string op =
        "^op" + std::to_string(rng.below(static_cast<std::uint32_t>(graph.num_ops()))) + "$";
    rules.rules.push_back(
        {.where = "test", .match = {.name = op}, .kind = RuleKind::kPin, .devices = {"d:0"}});
  }
  if (rng.below(3) == 0) {
    const std::string two = "^op[" + std::to_string(rng.below(4)) + std::to_string(4 + rng.below(4)) + "]$";
    rules.rules.push_back({.where = "test",
                           .match = {.name = two},
                           .kind = RuleKind::kColocate,
                           .label = "x",
                           .optional = true});
  }
  return Constraints::make(graph, devices, apply_rules(graph, devices, rules).value()).value();
}

TEST(LowerBound, IsNeverAboveTheBestOfAllPlacements) {
  int tight = 0, fitting = 0;
  std::map<std::string, int> decisive;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph =
        seed % 2 == 0 ? random_graph(rng, 5 + rng.below(4)) : knotty_graph(rng, 4 + rng.below(5));
    DeviceSet devices = random_devices(rng);
    if (seed % 4 == 3) devices = testing::with_random_sharing(rng, std::move(devices));
    const Constraints constraints = random_constraints(rng, graph, devices);
    const CostTable costs{graph, devices};
    const LowerBound bound = lower_bound(graph, devices, constraints, costs);
    for (const Dispatch dispatch : {Dispatch::kProgram, Dispatch::kFifo}) {
      const double best_s = best_of_all(graph, devices, constraints, dispatch);
      for (const double value_s : {bound.path_s, bound.work_s, bound.route_s, bound.memory_s, bound.window_s})
        ASSERT_LE(value_s, best_s * (1 + 1e-15)) << "seed " << seed << ", " << word_of(bound.proof());
      if (best_s < 1) ++fitting;
      if (bound.seconds() > 0.999 * best_s) ++tight;
    }
    ++decisive[std::string{word_of(bound.proof())}];
  }
  EXPECT_GT(fitting, static_cast<int>(kSeeds)) << "most have placements that fit";
  EXPECT_GT(tight, fitting / 3) << "and for many the bound is the optimum";
  for (const char* each : {"critical path", "critical path with transfers", "total work",
                           "total work within memory", "work between head and tail"})
    EXPECT_GT(decisive[each], 0) << each << " is never the best bound";
}

TEST(LowerBound, ChainIsBoundByItsPathOnTheFastestDevices) {
  const OpGraph graph = sample_graph({{.name = "a", .gpu_us = 10, .cpu_us = 30},
                                      {.name = "b", .inputs = {{0, 0}}, .gpu_us = 40, .cpu_us = 20}});
  const LowerBound bound =
      bound_of(graph, sample_devices(1, true, kPlenty, {.bytes_per_s = 1e18, .latency_s = 10e-6}));
  EXPECT_DOUBLE_EQ(bound.path_s, 30e-6);
  EXPECT_DOUBLE_EQ(bound.route_s, 40e-6) << "b on the CPU would wait for a transfer of 10 us";
  EXPECT_EQ(word_of(bound.proof()), "critical path with transfers");
}

TEST(LowerBound, IndependentWorkIsDividedBySpeed) {
  std::vector<SampleOp> ops;
  for (int i = 0; i < 40; ++i) ops.push_back({.name = "op" + std::to_string(i), .gpu_us = 10, .cpu_us = 30});
  // Two GPUs and a CPU of a third of the speed: 400 us of GPU work at a rate of 2 + 1/3.
  const LowerBound bound = bound_of(sample_graph(ops), sample_devices(2, true, kPlenty));
  EXPECT_NEAR(bound.work_s, 400e-6 / (2 + 1.0 / 3), 0.005 * bound.work_s);
  EXPECT_LE(bound.work_s, 400e-6 / (2 + 1.0 / 3));
  EXPECT_EQ(word_of(bound.proof()), "total work");
}

TEST(LowerBound, UsesTheBestKindOfDeviceForEachOp) {
  // One op is fast on each kind: the optimum puts each on its kind and takes 10 us.
  const OpGraph graph = sample_graph(
      {{.name = "a", .gpu_us = 10, .cpu_us = 1000}, {.name = "b", .gpu_us = 1000, .cpu_us = 10}});
  const LowerBound bound = bound_of(graph, sample_devices(1, true, kPlenty));
  EXPECT_NEAR(bound.work_s, 10e-6, 0.1e-6);
}

}  // namespace
}  // namespace emplace

// Goal: a step that is timed for a search has the time and memory of a whole step, bit for bit, and is given
// up only if it takes longer than the limit. Method: random placements and moves on random graphs with views,
// state, parts and updates, on layered ones and on a real net, with limits around the step's time; walks of
// small moves that are kept or undone, with marks after every round or few, and with memory that is just
// enough; counts of rounds and of whole accounts of memory, which must show that sharing pays; unsupported
// machines and orders.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "executor/sim/shared/step_tables.h"
#include "executor/sim/simulator.h"
#include "executor/sim/timed/timed_step.h"
#include "graph/formats/graph_file.h"
#include "placement/machine/device_file.h"
#include "tests/executor/sim/dealt_groups.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using testing::deal;
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

/// A placement in contiguous pieces, or at random.
Placement some_placement(Rng& rng, std::size_t ops, std::size_t devices) {
  if (rng.below(2) == 0) return testing::random_placement(rng, ops, devices);
  Placement placement(ops);
  for (std::size_t op = 0; op < ops; ++op) placement[op] = static_cast<DeviceId>(op * devices / ops);
  return placement;
}

/// Devices of which the fullest has just enough memory for the placement, so that moves determine what fits.
DeviceSet just_enough(const OpGraph& graph, std::size_t gpus, Link link, const Placement& placement) {
  const DeviceSet ample = sample_devices(gpus, false, std::int64_t{1} << 40, link);
  Measurement measured;
  EXPECT_TRUE(Simulator(graph, ample).measure(placement, measured).ok());
  return sample_devices(gpus, false, std::ranges::max(measured.peak_bytes), link);
}

struct WalkCase {
  const OpGraph& graph;
  const DeviceSet& devices;
  std::uint32_t rounds_per_mark;
  int moves;
};

/// Moves groups under limits that a search would set, and keeps some of the moves.
void walk_in_groups(const WalkCase& world, Rng& rng, Placement placement,
                    const std::vector<std::vector<std::uint32_t>>& groups) {
  Simulator whole{world.graph, world.devices};
  const StepTables tables{world.graph, world.devices};
  simulated::TimedStep step{tables, world.rounds_per_mark};
  Measurement measured;
  std::int64_t here_ns = std::numeric_limits<std::int64_t>::max() / 4;
  for (int k = 0; k < world.moves; ++k) {
    SCOPED_TRACE("move " + std::to_string(k));
    const Placement before = placement;
    const auto to = static_cast<DeviceId>(rng.below(static_cast<std::uint32_t>(world.devices.size())));
    for (std::uint32_t moved = 1 + rng.below(2); moved > 0; --moved)
      for (const std::uint32_t op : groups[rng.below(static_cast<std::uint32_t>(groups.size()))])
        placement[op] = to;
    ASSERT_TRUE(whole.measure(placement, measured).ok());
    const std::int64_t end_ns = std::llround(measured.step_time_s * 1e9);
    const std::int64_t limit_ns = here_ns + here_ns / 100 * rng.below(20);
    ASSERT_EQ(step.run(placement, limit_ns), end_ns <= limit_ns);
    const bool within = end_ns <= limit_ns;
    if (within) {
      ASSERT_EQ(step.end_ns(), end_ns);
    }
    // A search may keep a placement without a request for its memory.
    if (within && rng.below(8) != 0) {
      ASSERT_EQ(step.bytes_over(), measured.bytes_over);
    }
    if (within && rng.below(3) != 0) {
      here_ns = end_ns;
    } else {
      placement = before;
    }
  }
}

TEST(TimedStep, FollowsWalksOnRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 7};
    const OpGraph graph = testing::random_graph(rng, 40 + rng.below(400));
    const Link link{.bytes_per_s = rng.below(2) == 0 ? 1e9 : 1e7, .latency_s = 1e-6};
    const std::size_t gpus = 2 + rng.below(3);
    const Placement start = some_placement(rng, graph.num_ops(), gpus);
    const DeviceSet devices = seed % 3 == 0 ? sample_devices(gpus, false, std::int64_t{1} << 40, link)
                                            : just_enough(graph, gpus, link, start);
    const auto groups = deal(rng, graph.num_ops(), 1 + rng.below(6), seed % 4 != 0);
    const std::uint32_t rounds_per_mark = std::array<std::uint32_t, 4>{1, 2, 5, 32}[seed % 4];
    walk_in_groups({graph, devices, rounds_per_mark, 40}, rng, start, groups);
    if (HasFatalFailure()) return;
  }
}

/// Weights whose copies queue at the start of the step for a large part of it, and ops that read them.
OpGraph graph_of_weights(Rng& rng, std::uint32_t weights, std::uint32_t ops) {
  std::vector<testing::SampleOp> list;
  for (std::uint32_t i = 0; i < weights + ops; ++i) {
    testing::SampleOp op{.name = "op" + std::to_string(i)};
    op.gpu_us = 1 + rng.below(20);
    op.output_bytes = {2000 + rng.below(9000)};
    if (i < weights) {
      op.type = "Parameter";
    } else {
      const std::uint32_t near = (i - weights) * weights / ops;
      for (std::uint32_t k = rng.below(3); k > 0; --k)
        op.inputs.push_back({rng.below(4) == 0 ? rng.below(weights) : near, 0});
      for (std::uint32_t k = rng.below(3); k > 0 && i > weights; --k)
        op.inputs.push_back({i - 1 - rng.below(std::min(i - weights, 10u)), 0});
    }
    list.push_back(std::move(op));
  }
  return testing::sample_graph(list);
}

TEST(TimedStep, FollowsWalksThatMoveWeights) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 10};
    const OpGraph graph = graph_of_weights(rng, 60, 240);
    const Link link{.bytes_per_s = 1e9, .latency_s = 1e-6};
    const Placement start = some_placement(rng, graph.num_ops(), 3);
    const DeviceSet devices = just_enough(graph, 3, link, start);
    walk_in_groups({graph, devices, 1 + rng.below(6), 60}, rng, start, deal(rng, graph.num_ops(), 2, true));
    if (HasFatalFailure()) return;
  }
}

TEST(TimedStep, FollowsWalksOnLayeredGraphs) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 8};
    const OpGraph graph = testing::layered_graph(rng, 2000);
    const Link link{.bytes_per_s = 1e9, .latency_s = 1e-6};
    const Placement start = some_placement(rng, graph.num_ops(), 3);
    const DeviceSet devices = just_enough(graph, 3, link, start);
    walk_in_groups({graph, devices, 1 + rng.below(20), 60}, rng, start, deal(rng, graph.num_ops(), 5, true));
    if (HasFatalFailure()) return;
  }
}

/// Refused moves of a net in time steps cost a part of its rounds, and with ample memory bounds show that
/// they fit. The walk is long enough for the log to be cleared.
TEST(TimedStep, SimulatesAPartOfARealNet) {
  const std::filesystem::path configs = std::filesystem::path{EMPLACE_SOURCE_DIR} / "configs";
  const OpGraph graph = load_graph(configs / "graphs/nmt-2layer-bs64.json.gz").value();
  const DeviceSet devices = load_devices(configs / "devices/hierarchical-2gpu.toml", 0).value();
  Rng rng{7, Purpose::kTest, 9};
  const auto groups = deal(rng, graph.num_ops(), 10, true);
  Placement placement(graph.num_ops());
  for (std::size_t op = 0; op < placement.size(); ++op)
    placement[op] = static_cast<DeviceId>(1 + op * 2 / placement.size());
  walk_in_groups({graph, devices, simulated::TimedStep::kRoundsPerMark, 80}, rng, placement, groups);

  const StepTables tables{graph, devices};
  simulated::TimedStep step{tables};
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  ASSERT_TRUE(step.run(placement, kNever));
  EXPECT_EQ(step.bytes_over(), 0);
  const std::uint64_t whole = step.rounds();
  constexpr std::uint32_t kMoves = 400;
  std::uint64_t kept = 0;
  for (std::uint32_t k = 0; k < kMoves; ++k) {
    const Placement before = placement;
    for (const std::uint32_t op : groups[rng.below(static_cast<std::uint32_t>(groups.size()))])
      placement[op] = static_cast<DeviceId>(1 + rng.below(2));
    ASSERT_TRUE(step.run(placement, kNever));
    EXPECT_EQ(step.bytes_over(), 0);
    if (rng.below(4) == 0) {
      ++kept;
    } else {
      placement = before;
    }
  }
  EXPECT_GT(kept, 50u);
  EXPECT_LT(step.rounds() - whole, kMoves * whole / 2);
  EXPECT_LT(step.whole_memories(), kMoves / 4);
}

TEST(TimedStep, UsesTheWholeStepForOtherMachines) {
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

/// The limit is compared not only with the end: for half of the work's time no event is simulated.
TEST(TimedStep, StopsBeforeTheEndOfTheStep) {
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
  simulated::TimedStep fresh{tables};
  EXPECT_FALSE(fresh.run(dealt, dealt_ns * 9 / 10));
  EXPECT_LT(fresh.simulated_ns(), dealt_ns * 9 / 10);
}

}  // namespace
}  // namespace emplace

// Goal: a simulator that simulates only what a move changes equals a whole step, bit for bit. Method:
// thousands of random moves (single ops, ranges, groups, everything; kept, undone, or half of each) on random
// graphs with views, state, parts, updates and free ops, on layered ones and on a real net, in both orders of
// dispatch; the results of a walk must not depend on how it is simulated, and layered graphs must show that
// it pays.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/rng.h"
#include "executor/sim/simulator.h"
#include "executor/sim/whole/moved_step.h"
#include "executor/sim/whole/step_history.h"
#include "graph/formats/graph_file.h"
#include "graph/grouping.h"
#include "placement/machine/device_file.h"
#include "tests/executor/sim/dealt_groups.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using testing::deal;
using testing::sample_devices;

/// A simulator that starts from scratch beside one that remembers.
class SimulatorPair {
 public:
  SimulatorPair(const OpGraph& graph, const DeviceSet& devices, Dispatch dispatch)
      : whole_steps_{graph, devices, {dispatch}}, moving_{graph, devices, {dispatch, true}} {}

  void expect_same(const Placement& placement) {
    ASSERT_TRUE(whole_steps_.measure(placement, whole_).ok());
    ASSERT_TRUE(moving_.measure(placement, part_).ok());
    ASSERT_EQ(part_.step_time_s, whole_.step_time_s);
    ASSERT_EQ(part_.peak_bytes, whole_.peak_bytes);
    ASSERT_EQ(part_.busy_s, whole_.busy_s);
    ASSERT_EQ(part_.bytes_moved, whole_.bytes_moved);
    ASSERT_EQ(part_, whole_);
    Measurement again;
    ASSERT_TRUE(moving_.measure(placement, again).ok());
    ASSERT_EQ(again, whole_) << "a repeated placement";
  }

 private:
  Simulator whole_steps_, moving_;
  Measurement whole_, part_;
};

/// A walk of `moves` moves, some of which are kept.
void walk(SimulatorPair& pair, Rng& rng, Placement placement,
          const std::vector<std::vector<std::uint32_t>>& groups, std::size_t devices, int moves) {
  const auto some_device = [&] {
    return static_cast<DeviceId>(rng.below(static_cast<std::uint32_t>(devices)));
  };
  const auto ops = static_cast<std::uint32_t>(placement.size());
  for (int k = 0; k < moves; ++k) {
    const Placement before = placement;
    const std::uint32_t kind = rng.below(20);
    if (kind < 12) {
      const DeviceId to = some_device();
      for (const std::uint32_t op : groups[rng.below(static_cast<std::uint32_t>(groups.size()))])
        placement[op] = to;
    } else if (kind < 19) {
      const std::uint32_t first = rng.below(ops), length = rng.below(5);
      for (std::uint32_t op = first; op < std::min(first + length, ops); ++op) placement[op] = some_device();
    } else {
      placement = testing::random_placement(rng, ops, devices);
    }
    pair.expect_same(placement);
    if (::testing::Test::HasFatalFailure()) return;
    if (kind == 19 || rng.below(3) != 0) placement = before;
  }
}

/// Tensors that are read in parts, some soon and some late, by ops that wait long for another input; ops that
/// wait for nothing.
OpGraph graph_of_parts(Rng& rng, std::uint32_t ops) {
  std::vector<testing::SampleOp> list;
  for (std::uint32_t i = 0; i < ops; ++i) {
    testing::SampleOp op{.name = "op" + std::to_string(i)};
    op.gpu_us = 1 + rng.below(20);
    op.cpu_us = 2 * op.gpu_us;
    op.output_bytes = {4000 + rng.below(4000)};
    const auto before = [&](std::uint32_t reach) { return i - 1 - rng.below(std::min(i, reach)); };
    const std::uint32_t role = rng.below(10);
    if (i > 0 && role < 5) {
      op.inputs.push_back({before(10), 0});
      op.view = true;
      op.output_bytes = {1 + rng.below(3000)};
    } else if (i > 0 && role < 9) {
      op.inputs.push_back({before(10), 0});
      op.inputs.push_back({before(rng.below(3) == 0 ? ops : 30), 0});
    } else if (i > 0 && rng.below(2) == 0) {
      op.type = "Parameter";
    }
    list.push_back(std::move(op));
  }
  return testing::sample_graph(list);
}

TEST(MovedStep, EqualsAWholeStepOnTensorsReadInParts) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 5};
    const OpGraph graph = graph_of_parts(rng, 400);
    const DeviceSet devices = sample_devices(2 + rng.below(2), false, 40'000);
    SimulatorPair pair{graph, devices, seed % 2 == 0 ? Dispatch::kProgram : Dispatch::kFifo};
    Placement placement(graph.num_ops());
    for (std::size_t op = 0; op < placement.size(); ++op)
      placement[op] = static_cast<DeviceId>(op * devices.size() / placement.size());
    walk(pair, rng, placement, deal(rng, graph.num_ops(), 2, true), devices.size(), 30);
    if (HasFatalFailure()) return;
  }
}

TEST(MovedStep, EqualsAWholeStepOnRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 1};
    const OpGraph graph = testing::random_graph(rng, 20 + rng.below(300));
    const DeviceSet devices =
        sample_devices(2 + rng.below(3), rng.below(2) == 0, 40'000,
                       {.bytes_per_s = rng.below(2) == 0 ? 1e9 : 1e7, .latency_s = 1e-6});
    SimulatorPair pair{graph, devices, seed % 2 == 0 ? Dispatch::kProgram : Dispatch::kFifo};
    const auto groups = deal(rng, graph.num_ops(), 1 + rng.below(12), seed % 3 == 0);
    Placement placement(graph.num_ops());
    // Contiguous, or any.
    for (std::size_t op = 0; op < placement.size(); ++op)
      placement[op] =
          static_cast<DeviceId>(seed % 4 == 0 ? op * devices.size() / placement.size()
                                              : rng.below(static_cast<std::uint32_t>(devices.size())));
    walk(pair, rng, placement, groups, devices.size(), 30);
    if (HasFatalFailure()) return;
  }
}

TEST(MovedStep, EqualsAWholeStepOnSharedLinks) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 6};
    const OpGraph graph =
        seed % 3 == 0 ? testing::layered_graph(rng, 300) : testing::random_graph(rng, 20 + rng.below(300));
    const DeviceSet devices = testing::with_random_sharing(
        rng, sample_devices(3 + rng.below(5), false, 40'000, {.bytes_per_s = 1e8, .latency_s = 1e-6}), true);
    SimulatorPair pair{graph, devices, seed % 2 == 0 ? Dispatch::kProgram : Dispatch::kFifo};
    Placement placement(graph.num_ops());
    for (std::size_t op = 0; op < placement.size(); ++op)
      placement[op] = static_cast<DeviceId>(op * devices.size() / placement.size());
    walk(pair, rng, placement, deal(rng, graph.num_ops(), 8, seed % 4 != 0), devices.size(), 30);
    if (HasFatalFailure()) return;
  }
}

TEST(MovedStep, EqualsAWholeStepOnLayeredGraphs) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng{seed, Purpose::kTest, 2};
    const OpGraph graph = testing::layered_graph(rng, 3000);
    const DeviceSet devices = sample_devices(2 + rng.below(4), false, std::int64_t{1} << 30);
    SimulatorPair pair{graph, devices, seed % 2 == 0 ? Dispatch::kProgram : Dispatch::kFifo};
    Placement placement(graph.num_ops());
    for (std::size_t op = 0; op < placement.size(); ++op)
      placement[op] = static_cast<DeviceId>(op * devices.size() / placement.size());
    walk(pair, rng, placement, deal(rng, graph.num_ops(), 12, true), devices.size(), 100);
    if (HasFatalFailure()) return;
  }
}

/// Forward and backward ops of a scope, parameters and their updates move together, far apart in time.
TEST(MovedStep, EqualsAWholeStepOnARealNet) {
  const std::filesystem::path configs = std::filesystem::path{EMPLACE_SOURCE_DIR} / "configs";
  const OpGraph graph = load_graph(configs / "graphs/nmt-2layer-bs64.json.gz").value();
  const DeviceSet devices = load_devices(configs / "devices/hierarchical-4gpu.toml", 0).value();
  const Grouping scopes = scope_groups(graph);
  std::vector<std::vector<std::uint32_t>> groups(scopes.num_groups);
  for (std::uint32_t op = 0; op < graph.num_ops(); ++op) groups[scopes.group_of_op[op]].push_back(op);
  for (const Dispatch dispatch : {Dispatch::kProgram, Dispatch::kFifo}) {
    Rng rng{7, Purpose::kTest, 3};
    SimulatorPair pair{graph, devices, dispatch};
    Placement placement(graph.num_ops());
    for (std::size_t op = 0; op < placement.size(); ++op)
      placement[op] = static_cast<DeviceId>(1 + op * 4 / placement.size());
    walk(pair, rng, placement, groups, devices.size(), 150);
    if (HasFatalFailure()) return;
  }
}

/// Counted, not timed: in a layered graph a move changes only its surroundings.
TEST(MovedStep, SimulatesOnlyAShare) {
  Rng rng{3, Purpose::kTest, 4};
  const OpGraph graph = testing::layered_graph(rng, 25'000);
  const DeviceSet devices = sample_devices(4, false, std::int64_t{1} << 40);
  const StepTables tables{graph, devices};
  Placement base(graph.num_ops());
  for (std::size_t op = 0; op < base.size(); ++op) base[op] = static_cast<DeviceId>(op * 4 / base.size());
  simulated::RecordedStep recorded{tables, Dispatch::kProgram};
  simulated::MovedStep moved{tables, Dispatch::kProgram};
  simulated::StepHistory history;
  recorded.run(base, history);
  std::uint64_t rounds = 0, moves = 0;
  for (std::uint32_t first = 0; first + 100 < graph.num_ops(); first += 500, ++moves) {
    Placement placement = base;
    std::vector<std::uint32_t> ops;
    for (std::uint32_t op = first; op < first + 100; ++op) ops.push_back(op);
    for (const std::uint32_t op : ops) placement[op] = static_cast<DeviceId>((index(base[op]) + 1) % 4);
    rounds += moved.run(history, placement, ops);
  }
  EXPECT_LT(rounds, moves * history.rounds / 20);
  EXPECT_EQ(moved.run(history, base, {}), 0u) << "nothing moved, nothing simulated";
}

}  // namespace
}  // namespace emplace

// Goal: a simulator with a given order equals a simulator of the renumbered graph, bit for bit, whether it
// records steps or not; and the order in which the ops of a schedule start gives that schedule. Method:
// random orders of random graphs with views, state, updates and free ops, on machines with shared links and
// with any number of copy engines.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/rng.h"
#include "executor/sim/simulator.h"
#include "graph/lowering.h"
#include "graph/order.h"
#include "placement/order.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using testing::random_order;

/// Whether the views that are parts of one tensor are in the order of their ids.
bool keeps_parts_in_order(const LoweredGraph& lowered, std::span<const OpId> order) {
  const auto position = positions(order);
  for (std::uint32_t b = 0; b + 1 < lowered.num_buffers(); ++b) {
    const BufferId part{b}, next{b + 1};
    if (lowered.owner(part) != lowered.owner(next) || lowered.base(next) == next) continue;
    const auto at = [&](BufferId buffer) {
      return position[index(lowered.graph().producer(lowered.tensor(buffer)))];
    };
    if (at(part) > at(next)) return false;
  }
  return true;
}

DeviceSet machine(Rng& rng, std::size_t gpus, bool one_engine_each) {
  return testing::with_random_sharing(rng, testing::sample_devices(gpus, true, 20'000), one_engine_each);
}

TEST(DispatchOrder, EqualsTheRenumberedGraph) {
  int different = 0, compared = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng{seed, Purpose::kTest, 40};
    const OpGraph graph = testing::random_graph(rng, 20 + rng.below(60));
    const LoweredGraph lowered{graph};
    const DeviceSet devices = machine(rng, 2 + rng.below(3), seed % 2 == 0);
    const Placement placement = testing::random_placement(rng, graph.num_ops(), devices.size());
    Simulator simulator{graph, devices}, moving{graph, devices, {.incremental = true}};
    Measurement by_id, plain, recorded, expected;
    ASSERT_TRUE(simulator.measure(placement, by_id).ok());
    for (int k = 0; k < 4; ++k) {
      const OpOrder order = random_order(rng, graph);
      if (!keeps_parts_in_order(lowered, order)) continue;
      ++compared;
      const OpGraph other = renumbered(graph, order);
      Simulator reference{other, devices};
      ASSERT_TRUE(reference.measure(renumbered(placement, order), expected).ok());
      ASSERT_TRUE(simulator.set_order(order).ok());
      ASSERT_TRUE(simulator.measure(placement, plain).ok());
      ASSERT_EQ(plain, expected) << "seed " << seed;
      ASSERT_TRUE(moving.set_order(order).ok());
      for (int move = 0; move < 20; ++move) {
        Placement moved = placement;
        moved[rng.below(static_cast<std::uint32_t>(moved.size()))] = static_cast<DeviceId>(rng.below(3));
        ASSERT_TRUE(moving.measure(moved, recorded).ok());
        ASSERT_TRUE(reference.measure(renumbered(moved, order), expected).ok());
        ASSERT_EQ(recorded, expected) << "seed " << seed;
      }
      if (plain != by_id) ++different;
    }
    ASSERT_TRUE(simulator.set_order({}).ok());
    ASSERT_TRUE(simulator.measure(placement, plain).ok());
    ASSERT_EQ(plain, by_id) << "without an order, ready ops are taken by id again";
  }
  EXPECT_GT(compared, 500);
  EXPECT_GT(different, compared / 2) << "the order matters";
}

TEST(DispatchOrder, OrderOfTheStartsGivesTheSameSchedule) {
  // Copies of one buffer leave in the order of their first readers. That may change with the order, so here
  // every copy starts when it is queued.
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng{seed, Purpose::kTest, 41};
    const OpGraph graph = testing::random_graph(rng, 20 + rng.below(60));
    const LoweredGraph lowered{graph};
    const DeviceSet devices =
        *testing::sample_devices(3, true, 20'000).with_engines(std::vector<std::uint32_t>(4, kUnlimited));
    const Placement placement = testing::random_placement(rng, graph.num_ops(), devices.size());
    Simulator simulator{graph, devices};
    ASSERT_TRUE(simulator.set_order(random_order(rng, graph)).ok());
    Measurement measured, again;
    Schedule schedule, repeated;
    ASSERT_TRUE(simulator.trace(placement, measured, schedule).ok());

    // State and views have no start: each follows its inputs at once.
    std::vector<bool> done(graph.num_ops(), false);
    OpOrder order;
    const auto take = [&](OpId op) {
      done[index(op)] = true;
      order.push_back(op);
    };
    const auto take_free_ops = [&] {
      for (const OpId op : graph.topological_order()) {
        const auto inputs = graph.inputs(op);
        const bool ready = std::all_of(inputs.begin(), inputs.end(),
                                       [&](TensorId input) { return done[index(graph.producer(input))]; });
        if (!done[index(op)] && !lowered.takes_time(op) && ready) take(op);
      }
    };
    take_free_ops();
    for (const OpRun& run : schedule.ops) {
      take(run.op);
      take_free_ops();
    }
    ASSERT_TRUE(check_order(graph, order).ok()) << "seed " << seed;
    ASSERT_TRUE(simulator.set_order(order).ok());
    ASSERT_TRUE(simulator.trace(placement, again, repeated).ok());
    ASSERT_EQ(again, measured) << "seed " << seed;
    for (std::size_t k = 0; k < schedule.ops.size(); ++k) {
      ASSERT_EQ(repeated.ops[k].op, schedule.ops[k].op);
      ASSERT_EQ(repeated.ops[k].start_s, schedule.ops[k].start_s);
    }
  }
}

TEST(DispatchOrder, RefusesInvalidPermutationsAndFifo) {
  const OpGraph graph = testing::random_graph(1, 10);
  const DeviceSet devices = testing::sample_devices(2, false, 1 << 20);
  Simulator simulator{graph, devices}, fifo{graph, devices, {.dispatch = Dispatch::kFifo}};
  OpOrder order(graph.num_ops(), OpId{0});
  EXPECT_FALSE(simulator.set_order(order).ok());
  order.resize(3);
  EXPECT_FALSE(simulator.set_order(order).ok());
  Rng rng{1, Purpose::kTest};
  order = random_order(rng, graph);
  EXPECT_TRUE(simulator.set_order(order).ok());
  const auto refused = fifo.set_order(order);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kUnsupported);
}

}  // namespace
}  // namespace emplace

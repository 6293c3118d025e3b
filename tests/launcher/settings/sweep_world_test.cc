// Goal: the devices that a walk may choose obey the latency model: no circle, and no more bytes than fit.
// Method: random walks over random graphs, which choose among all open devices; the model must find no
// circle, and ops keep no more bytes than their device has.
#include "launcher/settings/sweep_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/rng.h"
#include "executor/split/latency_model.h"
#include "placement/split_costs.h"
#include "tests/support/sample_graphs.h"

namespace emplace::launcher {
namespace {

actors::TaskGraph task_of(std::uint64_t seed, std::size_t accelerators, std::int64_t memory,
                          bool state = false) {
  Rng rng{seed, Purpose::kTest};
  OpGraph graph = state ? testing::random_graph(seed, 60) : testing::layered_graph(rng, 60);
  DeviceSet devices = testing::sample_devices(accelerators, true, memory);
  Constraints constraints = *Constraints::make(graph, devices);
  return {std::move(graph), std::move(devices), std::move(constraints), ""};
}

Placement random_walk(const policy::SweepPlan& plan, const Grouping& grouping, Rng& rng) {
  std::vector<float> features(policy::SweepPlan::kFeatures);
  const std::vector<std::uint8_t> nowhere(plan.world().groups, policy::SweepPlan::kNowhere);
  policy::SweepWalk walk{plan, nowhere};
  Placement of_group(plan.world().groups), placement;
  while (!walk.done()) {
    walk.evaluate();
    std::size_t device = 0;
    do device = rng.below(static_cast<std::uint32_t>(plan.world().devices));
    while (!walk.open()[device]);
    walk.describe(device, features);
    for (const float feature : features) EXPECT_TRUE(std::isfinite(feature));
    of_group[walk.group()] = static_cast<DeviceId>(device);
    walk.take(device);
  }
  for (const std::uint32_t group : grouping.group_of_op) placement.push_back(of_group[group]);
  return placement;
}

TEST(SweepWorld, OpenDevicesMakeNoCircle) {
  std::size_t circles = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const actors::TaskGraph task = task_of(seed, 3, std::int64_t{1} << 40);
    const Grouping grouping = colocation_groups(task.graph);
    ASSERT_EQ(grouping.num_groups, task.graph.num_ops());
    const policy::SweepPlan careful{sweep_world(task, grouping, true)},
        careless{sweep_world(task, grouping, false)};
    LatencyModel model{task.graph, task.devices};
    Rng rng{seed, Purpose::kTest, 1};
    for (int walk = 0; walk < 5; ++walk) {
      EXPECT_FALSE(model.value(random_walk(careful, grouping, rng)).circle) << "seed " << seed;
      circles += model.value(random_walk(careless, grouping, rng)).circle;
    }
  }
  // Walks without the rule make circles.
  EXPECT_GT(circles, 20u);
}

TEST(SweepWorld, OpenDevicesHaveRoom) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const actors::TaskGraph roomy = task_of(seed, 3, std::int64_t{1} << 40, true);
    LatencyModel all{roomy.graph, roomy.devices};
    Measurement measured;
    ASSERT_TRUE(all.measure(Placement(roomy.graph.num_ops(), DeviceId{1}), measured).ok());
    ASSERT_GT(measured.peak_bytes[1], 100);
    const actors::TaskGraph task = task_of(seed, 3, measured.peak_bytes[1] / 4, true);
    const SplitCosts costs{task.graph, task.devices};
    const Grouping grouping = colocation_groups(task.graph);
    const policy::SweepPlan plan{sweep_world(task, grouping, false)};
    Rng rng{seed, Purpose::kTest, 2};
    for (int walk = 0; walk < 5; ++walk) {
      const Placement placement = random_walk(plan, grouping, rng);
      ASSERT_TRUE(task.constraints.check(task.graph, task.devices, placement).ok());
      // It draws by what ops keep themselves; the model adds copies of what other devices read.
      std::vector<std::int64_t> held(costs.num_devices(), 0);
      for (std::size_t op = 0; op < placement.size(); ++op) held[index(placement[op])] += costs.bytes(op);
      for (const DeviceId gpu : {DeviceId{1}, DeviceId{2}, DeviceId{3}})
        EXPECT_LE(held[index(gpu)], costs.memory_bytes(index(gpu))) << "seed " << seed;
    }
  }
}

TEST(SweepWorld, DevicesOfOneKindAreInterchangeable) {
  const actors::TaskGraph task = task_of(3, 3, 1 << 30);
  const policy::SweepWorld world = sweep_world(task, colocation_groups(task.graph), true);
  EXPECT_EQ(world.accelerator, (std::vector<bool>{false, true, true, true}));
  EXPECT_NE(world.kind[0], world.kind[1]);
  EXPECT_EQ(world.kind[1], world.kind[2]);
  EXPECT_EQ(world.kind[1], world.kind[3]);
  const policy::SweepPlan plan{world};
  Rng rng{5, Purpose::kTest};
  const Placement placement = random_walk(plan, colocation_groups(task.graph), rng);
  std::vector<std::uint8_t> devices, swapped;
  for (const DeviceId device : placement) {
    devices.push_back(static_cast<std::uint8_t>(index(device)));
    swapped.push_back(devices.back() == 0 ? 0 : static_cast<std::uint8_t>(1 + devices.back() % 3));
  }
  // A walk numbers devices of one kind by first use.
  EXPECT_EQ(plan.renamed(devices), devices);
  EXPECT_EQ(plan.renamed(swapped), devices);
}

}  // namespace
}  // namespace emplace::launcher

// Goal: loads equal their definition, and a walk of moves ends with the loads of a fresh start. Method: a
// plain second implementation; random walks compared with fresh models, bit for bit.
#include "executor/split/load_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/plain_workload.h"

namespace emplace {
namespace {

using testing::PlainWorkload;
using testing::random_workload;
using testing::ReadWorkload;

TEST(LoadModel, EqualsItsDefinition) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const PlainWorkload workload = random_workload(rng, {.nodes = 1 + rng.below(20),
                                                         .accelerators = rng.below(5),
                                                         .cpus = 1 + rng.below(3),
                                                         .colours = false,
                                                         .cpu_only = false});
    const ReadWorkload task{workload, Objective::kMaxLoad};
    LoadModel model{task.graph, task.devices};
    for (int k = 0; k < 10; ++k) {
      PlainWorkload::Split split;
      for (std::size_t v = 0; v < workload.nodes.size(); ++v)
        split.push_back(rng.below(static_cast<std::uint32_t>(task.devices.size())));
      Measurement measured;
      ASSERT_TRUE(model.measure(task.placement(split), measured).ok());
      std::vector<std::int64_t> expected = workload.loads_ms(split);
      for (std::int64_t& load : expected) load *= 1'000'000'000;
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), model.loads_ps().begin())) << workload.json();
      ASSERT_DOUBLE_EQ(measured.step_time_s, static_cast<double>(workload.max_load_ms(split)) * 1e-3);
      ASSERT_EQ(measured.valid, workload.fits(split));
      ASSERT_EQ(measured.peak_bytes, workload.held(split));
    }
  }
}

TEST(LoadModel, MovesEqualAFreshStart) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Rng rng{seed, Purpose::kTest, 1};
    const OpGraph graph = testing::random_graph(rng, 20 + rng.below(80));
    const DeviceSet devices = testing::sample_devices(4, true, 1 << 20);
    LoadModel moving{graph, devices}, fresh{graph, devices};
    Placement placement = testing::random_placement(rng, graph.num_ops(), devices.size());
    moving.start(placement);
    for (int step = 0; step < 1000; ++step) {
      const std::uint32_t op = rng.below(static_cast<std::uint32_t>(graph.num_ops()));
      placement[op] = static_cast<DeviceId>(rng.below(5));
      moving.move(op, placement[op]);
      ASSERT_EQ(moving.device_of(op), placement[op]);
      if (step % 10 != 0) continue;
      fresh.start(placement);
      ASSERT_TRUE(std::equal(fresh.loads_ps().begin(), fresh.loads_ps().end(), moving.loads_ps().begin()));
      ASSERT_TRUE(
          std::equal(fresh.held_bytes().begin(), fresh.held_bytes().end(), moving.held_bytes().begin()));
    }
  }
}

TEST(LoadModel, RefusesInvalidPlacementsInOneLine) {
  const PlainWorkload workload{.nodes = std::vector<testing::PlainNode>(3)};
  const ReadWorkload task{workload, Objective::kMaxLoad};
  LoadModel model{task.graph, task.devices};
  Measurement measured;
  EXPECT_FALSE(model.measure(Placement(4), measured).ok());
  EXPECT_FALSE(model.measure(Placement(3, DeviceId{3}), measured).ok());
}

}  // namespace
}  // namespace emplace

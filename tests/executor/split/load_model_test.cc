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
  std::size_t fits = 0, misfits = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Rng rng{seed, Purpose::kTest, 1};
    const OpGraph graph = testing::random_graph(rng, 20 + rng.below(80));
    const DeviceSet devices =
        testing::sample_devices(4, true, seed % 2 == 0 ? 1 << 20 : 500 * static_cast<int>(graph.num_ops()));
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
      const std::vector<std::int64_t> held = fresh.costs().held_bytes(placement);
      ASSERT_TRUE(std::equal(held.begin(), held.end(), fresh.held_bytes().begin()));
      ASSERT_TRUE(std::equal(held.begin(), held.end(), moving.held_bytes().begin()));
      Measurement measured;
      ASSERT_TRUE(fresh.measure(placement, measured).ok());
      const std::int64_t over = moving.bytes_over().value();
      ASSERT_EQ(over == 0, measured.bytes_over == 0);
      ASSERT_LE(over, measured.bytes_over);
      (over > 0 ? misfits : fits) += 1;
    }
  }
}

/// A weight of 100 bytes on the CPU, read by two ops of the GPU, of which one reads 40 bytes of it, and the
/// result of a forward op that the backward pass needs elsewhere.
TEST(LoadModel, CountsWhatOtherDevicesKeep) {
  const OpGraph graph = testing::sample_graph(
      {{.name = "weight", .output_bytes = {100}, .type = "Parameter"},
       {.name = "part", .inputs = {{0, 0}}, .output_bytes = {40}, .view = true},
       {.name = "a", .inputs = {{0, 0}}, .output_bytes = {7}},
       {.name = "b", .inputs = {{0, 0}, {2, 0}}, .output_bytes = {3}},
       {.name = "c", .inputs = {{1, 0}}, .output_bytes = {5}},
       {.name = "grad", .inputs = {{2, 0}, {3, 0}, {4, 0}}, .output_bytes = {2}, .phase = Phase::kBackward}});
  const DeviceSet devices = testing::sample_devices(2, true, 150);
  LoadModel model{graph, devices};
  const auto peaks = [&](const Placement& placement) {
    Measurement measured;
    EXPECT_TRUE(model.measure(placement, measured).ok());
    EXPECT_EQ(measured.valid, std::ranges::max(measured.peak_bytes) <= 150);
    return measured.peak_bytes;
  };
  const DeviceId cpu{0}, one{1}, other{2};
  // The whole weight and its part are two copies on the GPU, each once; the other one keeps the three
  // results.
  EXPECT_EQ(peaks({cpu, cpu, one, one, one, other})[1], 100 + 40 + 7 + 3 + 5);
  EXPECT_EQ(peaks({cpu, cpu, one, one, one, other})[2], 7 + 3 + 5 + 2);
  EXPECT_EQ(peaks({cpu, cpu, cpu, cpu, one, one})[1], 40 + 7 + 3 + 5);
  EXPECT_EQ(peaks({one, one, one, one, one, one})[1], 100 + 7 + 3 + 5 + 2);
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

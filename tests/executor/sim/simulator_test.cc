// Goal: each rule of the default model, one by one. Method: graphs small enough to compute by hand; 1 us =
// 1000 bytes.
#include "executor/sim/simulator.h"

#include <gtest/gtest.h>

#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using testing::sample_devices;
using testing::sample_graph;

constexpr DeviceId kA{0}, kB{1};
constexpr std::int64_t kRoomy = 1 << 30;

Measurement measure(const OpGraph& graph, const DeviceSet& devices, const Placement& placement,
                    SimulatorOptions options = {}) {
  Simulator simulator{graph, devices, options};
  Measurement out;
  EXPECT_TRUE(simulator.measure(placement, out).ok());
  return out;
}

TEST(Simulator, StepOnOneDeviceIsTheSumOfItsOps) {
  const OpGraph graph =
      sample_graph({{"a", {}, {10}, 3}, {"b", {{0, 0}}, {20}, 4}, {"c", {{1, 0}}, {30}, 5}});
  const DeviceSet devices = sample_devices(1, false, kRoomy);
  const Measurement m = measure(graph, devices, {kA, kA, kA});
  EXPECT_DOUBLE_EQ(m.step_time_s, 12e-6);
  EXPECT_DOUBLE_EQ(m.busy_s[0], 12e-6);
  EXPECT_EQ(m.bytes_moved, 0);
  EXPECT_EQ(m.peak_bytes[0], 50) << "b's 20 and c's 30; a was freed after b";
  EXPECT_TRUE(m.valid);
}

TEST(Simulator, CopyTakesLatencyPlusBytesAndOverlapsOps) {
  // a (1 us) sends 5000 bytes: 1 + 5 us. Meanwhile c (10 us) runs on A; b (2 us) ends at 1 + 6 + 2 = 9.
  const OpGraph graph =
      sample_graph({{"a", {}, {5000}, 1}, {"b", {{0, 0}}, {1}, 2}, {"c", {{0, 0}}, {1}, 10}});
  const DeviceSet devices = sample_devices(2, false, kRoomy);
  const Measurement m = measure(graph, devices, {kA, kB, kA});
  EXPECT_DOUBLE_EQ(m.step_time_s, 11e-6);
  EXPECT_DOUBLE_EQ(m.busy_s[1], 2e-6);
  EXPECT_EQ(m.bytes_moved, 5000);
  EXPECT_EQ(m.peak_bytes[1], 5001);
}

TEST(Simulator, CopiesOfOneDeviceQueueAndReadersShareACopy) {
  const OpGraph graph = sample_graph({{"a", {}, {1000, 1000}, 1},
                                      {"b", {{0, 0}}, {1}, 1},
                                      {"c", {{0, 0}}, {1}, 1},
                                      {"d", {{0, 1}}, {1}, 1}});
  const DeviceSet devices = sample_devices(2, false, kRoomy);
  const Measurement m = measure(graph, devices, {kA, kB, kB, kB});
  EXPECT_EQ(m.bytes_moved, 2000) << "b and c share one copy";
  EXPECT_DOUBLE_EQ(m.step_time_s, 6e-6) << "1 + 2 + 2 for the copies, the last op after them";
}

TEST(Simulator, ProgramOrderRunsTheLowestIdFirstAndFifoTheFirstReady) {
  // At 5 us x ends; y (id 3) has been ready behind it since 0, z (id 2) becomes ready at 2 us by a copy.
  const OpGraph graph = sample_graph({{"x", {}, {1}, 5},
                                      {"far", {}, {0}, 1},
                                      {"z", {{1, 0}}, {1}, 10},
                                      {"y", {}, {1}, 1},
                                      {"after y", {{3, 0}}, {0}, 20}});
  const DeviceSet devices = sample_devices(2, false, kRoomy);
  const Placement placement{kA, kB, kA, kA, kB};
  EXPECT_DOUBLE_EQ(measure(graph, devices, placement).step_time_s, (5 + 10 + 1 + 1 + 20) * 1e-6 + 1e-9);
  EXPECT_DOUBLE_EQ(measure(graph, devices, placement, {Dispatch::kFifo}).step_time_s,
                   (5 + 1 + 1 + 20) * 1e-6 + 1e-9);
}

TEST(Simulator, StateIsResidentAndRemoteReadersCostOneCopyPerStep) {
  const OpGraph graph = sample_graph({{.name = "w", .output_bytes = {3000}, .type = "Parameter"},
                                      {.name = "t", .inputs = {{0, 0}}, .output_bytes = {3000}, .view = true},
                                      {"b", {{1, 0}}, {1}, 2},
                                      {"c", {{0, 0}, {2, 0}}, {1}, 2}});
  const DeviceSet devices = sample_devices(2, false, kRoomy);
  const Measurement m = measure(graph, devices, {kA, kA, kB, kB});
  EXPECT_EQ(m.bytes_moved, 3000) << "the view is its base";
  EXPECT_DOUBLE_EQ(m.step_time_s, 8e-6);
  EXPECT_EQ(m.peak_bytes[0], 3000);
  EXPECT_EQ(m.peak_bytes[1], 3002);
}

TEST(Simulator, TooLittleMemoryIsAResultWithTheBytesOver) {
  const OpGraph graph = sample_graph({{"a", {}, {700}, 1}, {"b", {{0, 0}}, {600}, 1}});
  const DeviceSet devices = sample_devices(1, false, 1000);
  const Measurement m = measure(graph, devices, {kA, kA});
  EXPECT_FALSE(m.valid);
  EXPECT_EQ(m.peak_bytes[0], 1300);
  EXPECT_EQ(m.bytes_over, 300);
}

TEST(Simulator, ProducerKeepsItsTensorUntilTheCopyHasEnded) {
  // b runs 1 us and would free a's 5000 bytes at 2 us, but the copy to the other device lasts until 7 us; c
  // then takes 1.
  const OpGraph graph = sample_graph(
      {{"a", {}, {5000}, 1}, {"b", {{0, 0}}, {1}, 1}, {"c", {{1, 0}}, {4000}, 1}, {"d", {{0, 0}}, {1}, 1}});
  const DeviceSet devices = sample_devices(2, false, kRoomy);
  EXPECT_EQ(measure(graph, devices, {kA, kA, kA, kB}).peak_bytes[0], 9001);
  EXPECT_EQ(measure(graph, devices, {kA, kA, kA, kA}).peak_bytes[0], 9001) << "d still reads a";
}

TEST(Simulator, ScheduleAddsUpToTheMeasurement) {
  Rng rng{3, Purpose::kTest};
  const OpGraph graph = testing::random_graph(rng, 60);
  const DeviceSet devices = sample_devices(2, true, kRoomy);
  Simulator simulator{graph, devices};
  const Placement placement = testing::random_placement(rng, graph.num_ops(), devices.size());
  Measurement m;
  Schedule schedule;
  ASSERT_TRUE(simulator.trace(placement, m, schedule).ok());
  double end = 0;
  std::vector<double> busy(3, 0), free_at(3, 0);
  std::int64_t moved = 0;
  for (const OpRun& run : schedule.ops) {
    EXPECT_EQ(run.device, placement[index(run.op)]);
    EXPECT_GE(run.start_s, free_at[index(run.device)] - 1e-15);
    free_at[index(run.device)] = run.end_s;
    busy[index(run.device)] += run.end_s - run.start_s;
    end = std::max(end, run.end_s);
  }
  for (const TransferRun& run : schedule.transfers) {
    moved += run.bytes;
    end = std::max(end, run.end_s);
  }
  EXPECT_DOUBLE_EQ(end, m.step_time_s);
  EXPECT_EQ(moved, m.bytes_moved);
  for (std::size_t d = 0; d < 3; ++d) EXPECT_NEAR(busy[d], m.busy_s[d], 1e-12);
}

TEST(Simulator, RefusesAPlacementOfAnotherGraph) {
  const OpGraph graph = sample_graph({{"a"}});
  const DeviceSet devices = sample_devices(1, false, kRoomy);
  Simulator simulator{graph, devices};
  Measurement out;
  EXPECT_FALSE(simulator.measure(Placement{}, out).ok());
  EXPECT_FALSE(simulator.measure(Placement{kB}, out).ok());
}

}  // namespace
}  // namespace emplace

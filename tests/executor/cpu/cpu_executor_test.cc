// Goal: a placement runs on real memory as planned: the numbers do not depend on the devices of ops, a full
// device is a result and does not end the executor, and reported times add up. Method: whole training steps
// of small real graphs on two logical devices, against a run on one, byte for byte.
#include "executor/cpu/cpu_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/rng.h"
#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "graph/lowering.h"
#include "tests/support/sample_graphs.h"

namespace emplace::cpu {
namespace {

using testing::random_placement;

const OpGraph& cifar() {
  static const OpGraph graph = *load_graph(EMPLACE_SOURCE_DIR "/configs/graphs/cifar10_cnn-bs32.json.gz");
  return graph;
}
const OpGraph& recurrent() {
  static const OpGraph graph =
      *load_graph(EMPLACE_SOURCE_DIR "/configs/graphs/rnnlm-bs4-hidden512-steps10.json.gz");
  return graph;
}

DeviceSet cores(std::size_t count, std::int64_t memory = std::int64_t{2} << 30) {
  std::vector<Device> devices;
  for (std::size_t d = 0; d < count; ++d)
    devices.push_back({"cpu:" + std::to_string(d), *find_profile("haswell18"), memory, ""});
  return DeviceSet::make(std::move(devices), Link{10e9, 1e-6})->with_copies(CopyEngine::kTarget);
}

constexpr RealOptions kQuick{.timing = {.warmups = 1, .samples = 3, .most_samples = 3}};

std::unique_ptr<CpuExecutor> executor_of(const OpGraph& graph, const DeviceSet& devices,
                                         const RealOptions& options = kQuick) {
  static const SystemClock clock;
  auto made = CpuExecutor::make(graph, devices, options, clock);
  EXPECT_TRUE(made) << made.error().context;
  return *std::move(made);
}

TEST(CpuExecutorTest, EveryKindOfTheSmallGraphsRunsNatively) {
  const DeviceSet devices = cores(2);
  EXPECT_THAT(executor_of(cifar(), devices)->synthetic_types(), ::testing::IsEmpty());
  EXPECT_THAT(executor_of(recurrent(), devices)->synthetic_types(), ::testing::IsEmpty());
}

TEST(CpuExecutorTest, NumbersDoNotDependOnThePlacement) {
  for (const OpGraph* graph : {&cifar(), &recurrent()}) {
    for (const std::size_t count : {2u, 3u}) {
      const DeviceSet devices = cores(count);
      const auto executor = executor_of(*graph, devices);
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        Rng rng{seed, Purpose::kTest};
        const auto verified = executor->verify(random_placement(rng, graph->num_ops(), count));
        ASSERT_TRUE(verified) << verified.error().context;
        EXPECT_TRUE(verified->identical) << verified->first_difference;
        EXPECT_EQ(verified->skipped, 0u);
        EXPECT_GT(verified->compared, 50u);
      }
    }
  }
}

TEST(CpuExecutorTest, MeasuresAndTracesAWholeStep) {
  const DeviceSet devices = cores(2);
  const auto executor = executor_of(cifar(), devices);
  Rng rng{5, Purpose::kTest};
  const Placement placement = random_placement(rng, cifar().num_ops(), 2);
  Measurement measured, simulated;
  Schedule schedule;
  ASSERT_TRUE(executor->trace(placement, measured, schedule));
  ASSERT_TRUE(measured.valid) << measured.failure;
  EXPECT_EQ(measured.samples_s.size(), 3u);
  EXPECT_GT(measured.step_time_s, 0);
  EXPECT_EQ(measured.synthetic_share, 0);
  ASSERT_TRUE(Simulator(cifar(), devices).measure(placement, simulated));
  EXPECT_EQ(measured.bytes_moved, simulated.bytes_moved);
  for (std::size_t d = 0; d < 2; ++d) EXPECT_LE(measured.busy_s[d], 1.5 * measured.step_time_s);
  // Each op runs once, one at a time on a device, and none before its inputs.
  const LoweredGraph lowered{cifar()};
  EXPECT_EQ(schedule.ops.size(), lowered.kernels().size());
  std::map<OpId, OpRun> ran;
  for (const OpRun& run : schedule.ops) EXPECT_TRUE(ran.emplace(run.op, run).second);
  for (const OpRun& a : schedule.ops) {
    for (const OpRun& b : schedule.ops)
      EXPECT_TRUE(a.op == b.op || a.device != b.device || a.end_s <= b.start_s || b.end_s <= a.start_s);
    for (const BufferId buffer : lowered.reads(a.op)) {
      const auto maker = ran.find(lowered.owner(buffer));
      EXPECT_TRUE(maker == ran.end() || maker->second.end_s <= a.start_s);
    }
  }
}

TEST(CpuExecutorTest, FullDeviceIsAResultEachTime) {
  const DeviceSet roomy = cores(2);
  // On one device the order, and so the peak, does not depend on speed.
  const Placement placement(cifar().num_ops(), DeviceId{1});
  Measurement whole;
  ASSERT_TRUE(executor_of(cifar(), roomy)->measure(placement, whole));
  ASSERT_TRUE(whole.valid) << whole.failure;
  const std::int64_t peak = *std::ranges::max_element(whole.peak_bytes);
  const DeviceSet tight = cores(2, peak * 9 / 10);
  const auto executor = executor_of(cifar(), tight);
  for (int i = 0; i < 20; ++i) {
    Measurement out;
    ASSERT_TRUE(executor->measure(placement, out));
    ASSERT_FALSE(out.valid);
    ASSERT_TRUE(out.failure.starts_with("oom: ")) << out.failure;
    ASSERT_GT(out.bytes_over, 0);
    ASSERT_TRUE(out.samples_s.empty());
  }
}

TEST(CpuExecutorTest, RunsAfterAFullDevice) {
  const Placement one(recurrent().num_ops(), DeviceId{0}), other(recurrent().num_ops(), DeviceId{1});
  const DeviceSet even = cores(2);
  std::vector<Device> devices{even.devices().begin(), even.devices().end()};
  devices[0].memory_bytes = 1 << 20;
  const DeviceSet uneven = *DeviceSet::make(devices, Link{10e9, 1e-6});
  const auto executor = executor_of(recurrent(), uneven);
  Measurement out;
  ASSERT_TRUE(executor->measure(one, out));
  EXPECT_FALSE(out.valid);
  ASSERT_TRUE(executor->measure(other, out));
  EXPECT_TRUE(out.valid) << out.failure;
  EXPECT_TRUE(out.failure.empty());
}

TEST(CpuExecutorTest, StandsInForOpsWithoutAKernelOrRefusesThem) {
  const OpGraph graph = testing::sample_graph({{"a", {}}, {"b", {{0, 0}}}});
  const DeviceSet devices = cores(1);
  const auto executor = executor_of(graph, devices);
  EXPECT_THAT(executor->synthetic_types(), ::testing::ElementsAre("Work"));
  Measurement out;
  ASSERT_TRUE(executor->measure(Placement(2, DeviceId{0}), out));
  EXPECT_EQ(out.synthetic_share, 1);
  EXPECT_GE(out.step_time_s, 2e-6);
  static const SystemClock clock;
  RealOptions strict = kQuick;
  strict.allow_synthetic = false;
  const auto refused = CpuExecutor::make(graph, devices, strict, clock);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnsupported);
  EXPECT_NE(refused.error().context.find("op 'a'"), std::string::npos) << refused.error().context;
}

TEST(CpuExecutorTest, ProfileHasEveryKernelOnEveryDeviceAndBothDirections) {
  const DeviceSet devices = cores(2);
  const auto profile = executor_of(cifar(), devices)->profile();
  ASSERT_TRUE(profile) << profile.error().context;
  ASSERT_EQ(profile->ops.size(), 2u);
  ASSERT_EQ(profile->links.size(), 2u);
  for (const LinkCost& link : profile->links) {
    EXPECT_GT(link.bytes_per_s, 1e8);
    EXPECT_LT(link.latency_s, 1e-3);
  }
  double sum_us = 0;
  for (const OpCost& cost : profile->ops[0]) sum_us += cost.us + profile->task_overhead_us[0];
  EXPECT_EQ(profile->ops[0].size(), LoweredGraph{cifar()}.kernels().size());
  // bench/calibration compares them tightly.
  EXPECT_NEAR(sum_us * 1e-6, profile->step_time_s, 0.5 * profile->step_time_s);
}

TEST(FitLink, IgnoresADisturbedPoint) {
  std::vector<double> bytes, seconds;
  for (int i = 0; i < 9; ++i) {
    bytes.push_back(1024.0 * (1 << i));
    seconds.push_back(2e-6 + bytes.back() / 5e9);
  }
  seconds[4] *= 30;
  const LinkCost link = fit_link(bytes, seconds);
  EXPECT_NEAR(link.bytes_per_s, 5e9, 1e6);
  EXPECT_NEAR(link.latency_s, 2e-6, 1e-8);
}

}  // namespace
}  // namespace emplace::cpu

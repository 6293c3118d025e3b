// Goal: the latency of a split equals its definition, bit for bit, and the result of the published tool.
// Method: a plain second implementation over thousands of random workloads and splits; recorded values of
// another program's evaluator on published workloads (tests/parity/make_split_fixture.py).
#include "executor/split/latency_model.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "graph/formats/graph_file.h"
#include "placement/partitioning_machine.h"
#include "tests/support/plain_workload.h"

namespace emplace {
namespace {

using testing::node_id;
using testing::PlainShape;
using testing::PlainWorkload;
using testing::random_workload;
using testing::ReadWorkload;

constexpr std::int64_t kPsPerMs = 1'000'000'000;

TEST(LatencyModel, EqualsItsDefinition) {
  std::size_t circles = 0, misfits = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const PlainWorkload workload =
        random_workload(rng, {.nodes = 1 + rng.below(24), .accelerators = rng.below(11), .colours = false});
    const ReadWorkload task{workload, Objective::kLatency};
    LatencyModel model{task.graph, task.devices};
    for (int k = 0; k < 20; ++k) {
      PlainWorkload::Split split;
      for (std::size_t v = 0; v < workload.nodes.size(); ++v)
        split.push_back(rng.below(static_cast<std::uint32_t>(task.devices.size())));
      Measurement measured;
      ASSERT_TRUE(model.measure(task.placement(split), measured).ok());
      const auto value = model.value(task.placement(split));
      const auto expected = workload.latency_ms(split);
      ASSERT_EQ(value.circle, !expected) << workload.json();
      ASSERT_EQ(measured.valid, expected && workload.fits(split));
      if (expected) {
        ASSERT_EQ(value.latency_ps, *expected * kPsPerMs) << workload.json();
      } else {
        ASSERT_EQ(value.latency_ps, value.total_ps);
      }
      ASSERT_DOUBLE_EQ(measured.step_time_s, static_cast<double>(value.latency_ps) * 1e-12);
      ASSERT_EQ(measured.peak_bytes, workload.held(split));
      std::int64_t over = 0;
      for (std::size_t d = 0; d < workload.accelerators; ++d)
        over += std::max<std::int64_t>(0, measured.peak_bytes[d] - workload.memory);
      ASSERT_EQ(measured.bytes_over, over);
      ASSERT_NEAR(std::accumulate(measured.busy_s.begin(), measured.busy_s.end(), 0.0),
                  static_cast<double>(value.total_ps) * 1e-12, 1e-9);
      circles += expected ? 0 : 1;
      misfits += over > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(circles, 300u);
  EXPECT_GT(misfits, 300u);
}

/// Latency of a graph whose ops are all on CPUs or that moves nothing: a list of [start, end) per CPU, the op
/// whose inputs existed first comes next.
std::int64_t plain_cpu_latency(const LatencyModel& model, const Placement& placement) {
  const SplitCosts& costs = model.costs();
  std::vector<std::int64_t> end(costs.num_ops(), 0), idle(costs.num_devices(), 0);
  std::vector<bool> done(costs.num_ops(), false);
  for (;;) {
    std::size_t next = costs.num_ops();
    std::int64_t next_ready = 0;
    for (const std::uint32_t op : costs.order()) {
      if (done[op] || !costs.counts(op)) continue;
      std::int64_t ready = 0;
      bool open = true;
      for (const std::uint32_t maker : costs.makers(op)) {
        open = open && done[maker];
        ready = std::max(ready, end[maker]);
      }
      if (open && (next == costs.num_ops() || ready < next_ready)) next = op, next_ready = ready;
    }
    if (next == costs.num_ops()) return *std::max_element(end.begin(), end.end());
    const std::size_t device = index(placement[next]);
    const std::int64_t time = costs.time_ps(device, next);
    done[next] = true;
    end[next] = (time > 0 ? std::max(next_ready, idle[device]) : next_ready) + time;
    if (time > 0) idle[device] = end[next];
  }
}

TEST(LatencyModel, ACpuRunsOneOpAtATime) {
  std::size_t waited = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph = testing::random_graph(rng, 10 + rng.below(40));
    const Profile cpu = *find_profile("haswell18");
    const DeviceSet devices = DeviceSet::make({{"cpu:0", cpu, 1 << 30, ""},
                                               {"cpu:1", cpu, 1 << 30, ""},
                                               {"gpu:0", *find_profile("k40"), 1 << 30, ""}},
                                              Link{1e9, 0})
                                  .value();
    LatencyModel model{graph, devices};
    const Placement placement = testing::random_placement(rng, graph.num_ops(), 2);
    Measurement measured;
    ASSERT_TRUE(model.measure(placement, measured).ok());
    const auto value = model.value(placement);
    ASSERT_EQ(value.latency_ps, plain_cpu_latency(model, placement)) << seed;
    const double most = *std::max_element(measured.busy_s.begin(), measured.busy_s.end());
    ASSERT_LE(most, measured.step_time_s * (1 + 1e-12));
    waited += value.latency_ps * 2 > value.total_ps ? 1 : 0;
    // With an accelerator, no device is busy for longer than the span either.
    const Placement mixed = testing::random_placement(rng, graph.num_ops(), devices.size());
    ASSERT_TRUE(model.measure(mixed, measured).ok());
    for (const double busy : measured.busy_s) ASSERT_LE(busy, measured.step_time_s * (1 + 1e-12));
  }
  EXPECT_GT(waited, 50u);
}

/// WORKLOAD DEVICES LATENCY_MS SPLIT, where "circle" may stand for the latency and the split has a letter per
/// id: '.' for the CPU, else the accelerator.
TEST(LatencyModel, EqualsThePublishedEvaluator) {
  std::ifstream file{std::string{EMPLACE_FIXTURES} + "/latency_splits.txt"};
  ASSERT_TRUE(file.is_open());
  std::string line, read;
  std::optional<OpGraph> graph;
  std::size_t compared = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words{line};
    std::string name, value, letters;
    std::size_t accelerators = 0;
    words >> name >> accelerators >> value >> letters;
    if (name != read)
      graph = load_graph(std::string{EMPLACE_FIXTURES} + "/third_party/dnn-partitioning/" + name).value();
    read = name;
    // The split determines the number of accelerators: an expert's may have more than the workload.
    const DeviceSet own = machine_of(*graph, Objective::kLatency).value().value();
    std::vector<Device> devices(accelerators, own.devices().front());
    for (std::size_t d = 0; d < accelerators; ++d) devices[d].name = "accel:" + std::to_string(d);
    devices.push_back(own.devices().back());
    const DeviceSet machine = DeviceSet::make(devices, Link{1e9, 0}).value();
    Placement placement;
    for (std::uint32_t op = 0; op < graph->num_ops(); ++op) {
      const char letter = letters.at(node_id(graph->name(OpId{op})));
      placement.push_back(static_cast<DeviceId>(letter == '.' ? accelerators : letter - 'a'));
    }
    LatencyModel model{*graph, machine};
    Measurement measured;
    ASSERT_TRUE(model.measure(placement, measured).ok());
    if (value == "circle") {
      EXPECT_TRUE(model.value(placement).circle) << line;
    } else {
      EXPECT_NEAR(measured.step_time_s * 1e3, std::stod(value), 1e-6 + 1e-9 * std::stod(value)) << line;
    }
    ++compared;
  }
  EXPECT_GE(compared, 60u);
}

/// A chain that changes device at every op has as many pieces as ops.
TEST(LatencyModel, CountsMorePiecesThanSixteenBits) {
  constexpr std::uint32_t kOps = 140'000;
  std::vector<testing::SampleOp> ops;
  Placement placement;
  for (std::uint32_t i = 0; i < kOps; ++i) {
    testing::SampleOp op{.name = std::to_string(i), .output_bytes = {0}};
    if (i > 0) op.inputs = {{i - 1, 0}};
    ops.push_back(op);
    placement.push_back(static_cast<DeviceId>(i % 2));
  }
  const OpGraph graph = testing::sample_graph(ops);
  LatencyModel model{graph, testing::sample_devices(2, false, 1 << 20, {.bytes_per_s = 1e9, .latency_s = 0})};
  const auto value = model.value(placement);
  EXPECT_FALSE(value.circle);
  EXPECT_EQ(value.latency_ps, std::int64_t{kOps} * 1'000'000);
}

TEST(LatencyModel, RefusesInvalidPlacementsInOneLine) {
  const PlainWorkload workload{.nodes = std::vector<testing::PlainNode>(3)};
  const ReadWorkload task{workload, Objective::kLatency};
  LatencyModel model{task.graph, task.devices};
  Measurement measured;
  EXPECT_EQ(model.measure(Placement(2), measured).error().context,
            "placement: has 2 ops, but the graph has 3");
  EXPECT_EQ(model.measure(Placement(3, DeviceId{3}), measured).error().context,
            "placement: device out of range");
}

/// Views are with their base: their own device has no effect.
TEST(LatencyModel, ViewsHaveNoEffect) {
  Rng rng{1, Purpose::kTest};
  for (int k = 0; k < 50; ++k) {
    const OpGraph graph = testing::random_graph(rng, 30);
    const DeviceSet devices = testing::sample_devices(3, true, 1 << 30);
    LatencyModel model{graph, devices};
    Placement placement = testing::random_placement(rng, graph.num_ops(), devices.size());
    const auto before = model.value(placement);
    for (std::uint32_t op = 0; op < graph.num_ops(); ++op)
      if (graph.is_view(OpId{op})) placement[op] = static_cast<DeviceId>(rng.below(4));
    const auto after = model.value(placement);
    EXPECT_EQ(before.latency_ps, after.latency_ps);
    EXPECT_EQ(before.circle, after.circle);
  }
}

/// Times whose sum exceeds 64 bits saturate instead of becoming negative.
TEST(SplitCosts, HugeTimesDoNotOverflow) {
  std::vector<testing::SampleOp> ops;
  for (std::uint32_t i = 0; i < 40; ++i) {
    testing::SampleOp op{.name = std::to_string(i), .output_bytes = {std::int64_t{1} << 50}, .gpu_us = 1e12};
    if (i > 0) op.inputs = {{i - 1, 0}};
    ops.push_back(op);
  }
  const OpGraph graph = testing::sample_graph(ops);
  LatencyModel model{graph, testing::sample_devices(2, false, 1 << 20, {.bytes_per_s = 1, .latency_s = 1e6})};
  Placement placement;
  for (std::uint32_t i = 0; i < 40; ++i) placement.push_back(static_cast<DeviceId>(i % 2));
  const auto value = model.value(placement);
  EXPECT_GT(value.latency_ps, 0);
  EXPECT_EQ(value.latency_ps, value.total_ps);
  EXPECT_GT(value.latency_ps, model.value(Placement(40)).latency_ps);
  EXPECT_GT(model.value(Placement(40)).latency_ps, 0);
}

}  // namespace
}  // namespace emplace

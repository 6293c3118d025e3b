// Goal: a graph that is refused fits nowhere, and lacks the stated memory; a plain lack of memory is found.
// Method: every placement of small random graphs on devices with little memory, in the simulator; graphs by
// hand for the words and numbers.

#include "placement/bounds/feasibility.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "tests/support/all_placements.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::sample_graph;
using testing::SampleOp;

constexpr Link kSlowLink{.bytes_per_s = 1e9, .latency_s = 1e-6};

DeviceSet devices_of(const std::vector<std::int64_t>& memory) {
  std::vector<Device> devices;
  for (std::size_t d = 0; d < memory.size(); ++d)
    devices.push_back({"gpu:" + std::to_string(d), *find_profile("k40"), memory[d], ""});
  return *DeviceSet::make(std::move(devices), kSlowLink);
}

bool anything_fits(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                   Dispatch dispatch) {
  Simulator simulator{graph, devices, {.dispatch = dispatch}};
  Measurement measured;
  bool fits = false;
  testing::for_each_placement(devices.size(), constraints, [&](const Placement& placement) {
    if (fits) return;
    EXPECT_TRUE(simulator.measure(placement, measured).ok());
    fits = measured.valid;
  });
  return fits;
}

TEST(Feasibility, NeverRefusesAGraphThatFits) {
  int refused = 0, infeasible = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph = testing::random_graph(rng, 5 + rng.below(3));
    std::vector<std::int64_t> memory;
    for (std::uint32_t d = 0, count = 1 + rng.below(3); d < count; ++d) memory.push_back(rng.below(12000));
    const DeviceSet devices = devices_of(memory);
    const Constraints constraints = Constraints::make(graph, devices).value();
    const auto shortfall = memory_shortfall(graph, devices, constraints);
    const bool fits =
        anything_fits(graph, devices, constraints, seed % 2 ? Dispatch::kFifo : Dispatch::kProgram);
    infeasible += fits ? 0 : 1;
    if (!shortfall) continue;
    ++refused;
    ASSERT_FALSE(fits) << "seed " << seed << ": " << shortfall->what;
    ASSERT_GT(shortfall->short_bytes, 0);
    // With one byte less than the stated need it is still refused, whichever devices are raised to it.
    for (std::int64_t& bytes : memory) bytes = std::max(bytes, shortfall->each_bytes - 1);
    const DeviceSet raised = devices_of(memory);
    ASSERT_FALSE(must_fit(graph, raised, Constraints::make(graph, raised).value()).ok()) << "seed " << seed;
    for (std::int64_t& bytes : memory) bytes = std::max(bytes, shortfall->each_bytes);
    const DeviceSet enough = devices_of(memory);
    ASSERT_TRUE(must_fit(graph, enough, Constraints::make(graph, enough).value()).ok()) << "seed " << seed;
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(10 * refused, 6 * infeasible) << "most infeasible graphs are found without a search";
}

TEST(Feasibility, NamesAnOpThatNoDeviceHolds) {
  const OpGraph graph = sample_graph({{.name = "small", .output_bytes = {100}},
                                      {.name = "large", .inputs = {{0, 0}}, .output_bytes = {1000}}});
  const DeviceSet devices = devices_of({1000, 600});
  const auto refused = must_fit(graph, devices, Constraints::make(graph, devices).value());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kNoPlacement);
  EXPECT_THAT(
      refused.error().context,
      AllOf(HasSubstr("graph 'sample': no placement fits: op 'large'"), HasSubstr("at least 1100 B"),
            HasSubstr(
                "but only 1000 B (1000 B) are available on the largest device they may use (gpu:0, gpu:1)"),
            HasSubstr("short of 100 B"),
            HasSubstr("increase the memory of smaller devices to at least 1100 B")));
  EXPECT_TRUE(must_fit(graph, devices_of({1100}), Constraints::make(graph, devices_of({1100})).value()).ok());
}

TEST(Feasibility, SumsStateOverDevices) {
  const OpGraph graph = sample_graph({{.name = "v", .output_bytes = {900}, .type = "Parameter"},
                                      {.name = "w", .output_bytes = {900}, .type = "Parameter"},
                                      {.name = "x", .output_bytes = {900}, .type = "Parameter"},
                                      {.name = "op", .inputs = {{0, 0}}, .output_bytes = {10}}});
  const DeviceSet devices = devices_of({1000, 1200});
  const auto shortfall = memory_shortfall(graph, devices, Constraints::make(graph, devices).value());
  ASSERT_TRUE(shortfall.has_value());
  EXPECT_EQ(shortfall->short_bytes, 2710 - 2200);
  EXPECT_EQ(shortfall->each_bytes, 1510 - 155) << "raised to one size: 2 * 1355 = 2710";
}

TEST(Feasibility, CountsTensorsBetweenForwardAndBackward) {
  // Ten layers whose outputs wait for the backward pass: 10 * 100 and the first gradient.
  std::vector<SampleOp> ops;
  for (std::uint32_t i = 0; i < 10; ++i)
    ops.push_back({.name = "f" + std::to_string(i), .inputs = {}, .output_bytes = {100}});
  for (std::uint32_t i = 1; i < 10; ++i) ops[i].inputs = {{i - 1, 0}};
  for (std::uint32_t i = 0; i < 10; ++i)
    ops.push_back(
        {.name = "b" + std::to_string(i), .inputs = {{9 + i, 0}, {9 - i, 0}}, .output_bytes = {100}});
  const OpGraph graph = sample_graph(ops);
  const DeviceSet devices = devices_of({400, 300});
  const auto shortfall = memory_shortfall(graph, devices, Constraints::make(graph, devices).value());
  ASSERT_TRUE(shortfall.has_value());
  EXPECT_EQ(shortfall->short_bytes, 400);
  EXPECT_THAT(shortfall->what, HasSubstr("live tensors need at least 1100 B"));
  EXPECT_EQ(shortfall->each_bytes, 550);
}

TEST(Feasibility, IsNearThePeakOfOneDeviceOnARealGraph) {
  const OpGraph graph = load_graph(EMPLACE_SOURCE_DIR "/configs/graphs/nmt-2layer-bs64.json.gz").value();
  const DeviceSet devices = devices_of({std::int64_t{1} << 30});
  Simulator simulator{graph, devices};
  Measurement measured;
  ASSERT_TRUE(simulator.measure(Placement(graph.num_ops(), DeviceId{0}), measured).ok());
  const auto shortfall = memory_shortfall(graph, devices, Constraints::make(graph, devices).value());
  ASSERT_TRUE(shortfall.has_value());
  EXPECT_LE(shortfall->each_bytes, measured.peak_bytes[0]);
  EXPECT_GT(static_cast<double>(shortfall->each_bytes), 0.8 * static_cast<double>(measured.peak_bytes[0]));
}

TEST(Feasibility, ObeysRestrictionsToDevices) {
  OpGraphBuilder builder;
  for (int i = 0; i < 3; ++i) {
    OpSpec op;
    op.name = "v" + std::to_string(i);
    op.type = "Parameter";
    op.outputs = {{DType::kU8, {500}}};
    if (i < 2) op.allowed_devices = {"gpu:1"}, op.has_allowed_devices = true;
    builder.add(std::move(op));
  }
  const OpGraph graph = *std::move(builder).build();
  const DeviceSet devices = devices_of({5000, 900});
  const auto shortfall = memory_shortfall(graph, devices, Constraints::make(graph, devices).value());
  ASSERT_TRUE(shortfall.has_value());
  EXPECT_EQ(shortfall->short_bytes, 100);
  EXPECT_EQ(shortfall->each_bytes, 1000);
  EXPECT_THAT(shortfall->what, HasSubstr("only 900 B (900 B) are available on gpu:1"));
}

}  // namespace
}  // namespace emplace

// Goal: Placeto's model gives the reference implementation's run times bit for bit. Method: the seeded
// layered graphs and splitmix64 placements of the reference times; small cases computed by hand.
#include "executor/sim/placeto_simulator.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "executor/sim/placeto_model.h"
#include "executor/split/judge.h"
#include "placement/machine/cost_trust.h"
#include "tests/support/reference_dag.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

void expect_reference_times(const std::string& file, const std::array<double, 3>& expected_us) {
  const auto dag = testing::read_reference_dag(std::string{EMPLACE_FIXTURES} + "/dags/" + file);
  ASSERT_TRUE(dag.ok()) << dag.error().context;
  PlacetoSimulator simulator{dag->graph, dag->cost_us, std::vector<std::size_t>(5, 0)};
  for (int pass = 0; pass < 2; ++pass) {  // Twice: an evaluation must leave nothing behind.
    for (std::uint64_t k = 0; k < 3; ++k) {
      const Placement placement = testing::reference_placement(dag->graph.num_ops(), k, 5);
      EXPECT_EQ(simulator.run_time_us(placement), expected_us[k]) << "placement " << k;
    }
  }
}

TEST(PlacetoSimulator, EqualsTheReferenceBitForBitOn1000Ops) {
  expect_reference_times("layered-1000.txt.gz", {19042.776578947389, 17588.571315789486, 17765.86934210527});
}

TEST(PlacetoSimulator, EqualsTheReferenceBitForBitOn10000Ops) {
  expect_reference_times("layered-10000.txt.gz",
                         {200525.78026316018, 204483.42828947661, 209468.21815789686});
}

TEST(PlacetoSimulator, RestsAfterOpsAndTransfersButNotAfterFreeOps) {
  const OpGraph graph = testing::sample_graph({{"a", {}, {7600}}, {"b", {{0, 0}}}});
  PlacetoSimulator busy{graph, {10, 20}, {0, 0}};
  const Placement together{DeviceId{0}, DeviceId{0}}, apart{DeviceId{0}, DeviceId{1}};
  EXPECT_DOUBLE_EQ(busy.run_time_us(together), 10 + 5.7 + 20 + 5.7);
  EXPECT_DOUBLE_EQ(busy.run_time_us(apart), 10 + 1 + 20 + 5.7)
      << "the bus rests until 36, the device until 36.7";
  PlacetoSimulator idle{graph, {0, 20}, {0, 0}};
  EXPECT_DOUBLE_EQ(idle.run_time_us(together), 20 + 5.7);
}

// All simulations make their model by make_model(): it must be this simulator, on the costs of the cost
// model, for any memory and links of the machine.
TEST(PlacetoSimulator, EqualsTheModelOfItsJudgeBitForBitAndHasNoMemory) {
  const OpGraph graph =
      testing::sample_graph({{.name = "w", .output_bytes = {1 << 20}, .type = "Parameter"},
                             {.name = "a", .inputs = {{0, 0}}, .output_bytes = {76'000}, .gpu_us = 11},
                             {.name = "b", .inputs = {{1, 0}}, .output_bytes = {4}, .gpu_us = 7},
                             {.name = "c", .inputs = {{1, 0}, {2, 0}}, .gpu_us = 3}});
  const DeviceSet devices = testing::sample_devices(2, true, 1'000);
  PlacementCosts of_machine{graph, devices};
  std::vector<double> costs;
  for (std::uint32_t d = 0; d < 3; ++d)
    for (const double us : of_machine.us(static_cast<DeviceId>(d))) costs.push_back(us);
  PlacetoSimulator own{graph, costs, {0, 1, 2}};
  Judge judge;
  judge.placeto = true;
  const auto model = make_model(graph, devices, judge);
  EXPECT_EQ(model->kind(), "placeto");
  for (std::uint32_t k = 0; k < 81; ++k) {
    Placement placement;
    for (std::uint32_t rest = k, i = 0; i < 4; ++i, rest /= 3)
      placement.push_back(static_cast<DeviceId>(rest % 3));
    Measurement of_model;
    ASSERT_TRUE(model->measure(placement, of_model).ok());
    EXPECT_EQ(of_model.step_time_s, own.run_time_us(placement) * 1e-6);
    EXPECT_TRUE(of_model.valid);
    EXPECT_EQ(of_model.label, MeasurementLabel::kSimulated);
  }
  judge.objective = Objective::kMaxLoad;
  EXPECT_NE(make_model(graph, devices, judge)->kind(), "placeto");
}

// A graph whose ops are not in topological order is simulated as the same graph in that order.
TEST(PlacetoSimulator, AcceptsGraphsInAnyOrderOfOps) {
  const std::vector<testing::SampleOp> ops{
      {.name = "a", .output_bytes = {76'000}, .gpu_us = 11},
      {.name = "b", .inputs = {{0, 0}}, .output_bytes = {4}, .gpu_us = 7}};
  const std::vector<testing::SampleOp> turned{
      {.name = "b", .inputs = {{1, 0}}, .output_bytes = {4}, .gpu_us = 7},
      {.name = "a", .output_bytes = {76'000}, .gpu_us = 11}};
  const OpGraph graph = testing::sample_graph(ops), other = testing::sample_graph(turned);
  ASSERT_FALSE(other.ids_are_topological());
  const DeviceSet devices = testing::sample_devices(2, true, 1'000);
  const auto model = make_placeto_model(graph, devices), reversed = make_placeto_model(other, devices);
  for (std::uint32_t a = 0; a < 3; ++a) {
    for (std::uint32_t b = 0; b < 3; ++b) {
      Measurement one, two;
      ASSERT_TRUE(model->measure(Placement{static_cast<DeviceId>(a), static_cast<DeviceId>(b)}, one).ok());
      ASSERT_TRUE(reversed->measure(Placement{static_cast<DeviceId>(b), static_cast<DeviceId>(a)}, two).ok());
      EXPECT_EQ(one.step_time_s, two.step_time_s);
    }
  }
  Measurement out;
  EXPECT_FALSE(reversed->measure(Placement{DeviceId{0}}, out).ok());
}

TEST(PlacetoSimulator, RefusesAPlacementOfAnotherGraph) {
  const OpGraph graph = testing::sample_graph({{"a"}});
  PlacetoSimulator simulator{graph, {1}, {0}};
  Measurement out;
  EXPECT_FALSE(simulator.measure(Placement{}, out).ok());
  EXPECT_FALSE(simulator.measure(Placement{DeviceId{1}}, out).ok());
  ASSERT_TRUE(simulator.measure(Placement{DeviceId{0}}, out).ok());
  EXPECT_DOUBLE_EQ(out.step_time_s, 6.7e-6);
}

}  // namespace
}  // namespace emplace

// Goal: Placeto's model gives the reference implementation's run times bit for bit.
// Method: the seeded layered graphs and splitmix64 placements on which those were taken; hand-worked small
// cases.
#include "executor/sim/placeto_simulator.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/support/reference_dag.h"
#include "tests/support/sample_graphs.h"

namespace emplace {
namespace {

void expect_reference_times(const std::string& file, const std::array<double, 3>& expected_us) {
  const auto dag = testing::read_reference_dag(std::string{EMPLACE_FIXTURES} + "/dags/" + file);
  ASSERT_TRUE(dag.ok()) << dag.error().context;
  PlacetoSimulator simulator{dag->graph, dag->cost_us, std::vector<std::size_t>(5, 0)};
  for (int pass = 0; pass < 2; ++pass) {  // Twice: nothing may be left over from an evaluation.
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

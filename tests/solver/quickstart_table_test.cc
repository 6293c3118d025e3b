// Goal: the baselines of the quickstart are as strong as they can honestly be, so that a better result is
// meaningful. Method: the shipped graph and machine; figures of an independent simulator (bound 325 ms,
// expert 600, contiguous 730, random 1040, round-robin 1131, single-cpu 2763, one GPU out of memory), which
// each method must approach or beat.

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "executor/sim/simulator.h"
#include "graph/formats/graph_file.h"
#include "placement/bounds/lower_bound.h"
#include "placement/machine/device_file.h"
#include "solver/methods.h"

namespace emplace {
namespace {

class QuickstartTable : public ::testing::Test {
 protected:
  static const Measurement& of(const std::string& method) { return table().at(method); }

  static std::map<std::string, Measurement>& table() {
    static std::map<std::string, Measurement> rows;
    return rows;
  }
  static void SetUpTestSuite() {
    const std::string root = EMPLACE_SOURCE_DIR;
    const OpGraph graph = load_graph(root + "/configs/graphs/nmt-2layer-bs64.json.gz").value();
    const DeviceSet devices = load_devices(root + "/configs/devices/quickstart.toml").value();
    const Constraints constraints = Constraints::make(graph, devices).value();
    Simulator simulator{graph, devices};
    const Problem problem{graph, devices, constraints, simulator.costs(), /*seed=*/1};
    for (const Method* method : all_methods())
      table()[std::string{method->name()}] = method->find(problem, simulator).value().measurement;
    bound_s = lower_bound(graph, devices, constraints, simulator.costs()).seconds();
  }
  static inline double bound_s = 0;
};

TEST_F(QuickstartTable, BoundIsTheDividedWork) { EXPECT_NEAR(bound_s, 0.325, 0.001); }

TEST_F(QuickstartTable, OneProcessorTakesAllWorkAndOneGpuCannotHoldIt) {
  EXPECT_TRUE(of("single-cpu").valid);
  EXPECT_NEAR(of("single-cpu").step_time_s, 2.763, 0.01);
  EXPECT_FALSE(of("single-gpu").valid);
  EXPECT_NEAR(static_cast<double>(of("single-gpu").bytes_over), 0.58e9, 0.05e9);
}

TEST_F(QuickstartTable, BaselinesOfManyDevicesFitAndAreNearTheirFiguresOrBetter) {
  // The figures of the partitioners and list schedulers there are METIS 559, HEFT 1764 and m-ETF 1194.
  const std::map<std::string, double> at_most{{"random", 1.20}, {"round-robin", 1.15}, {"contiguous", 0.80},
                                              {"expert", 0.62}, {"scotch", 0.50},      {"mincut", 0.50},
                                              {"metis", 0.52},  {"m-topo", 0.60},      {"m-etf", 0.55},
                                              {"m-sct", 0.60},  {"heft", 0.70}};
  for (const auto& [method, limit_s] : at_most) {
    EXPECT_TRUE(of(method).valid) << method;
    EXPECT_LT(of(method).step_time_s, limit_s) << method;
    EXPECT_GT(of(method).step_time_s, bound_s) << method;
  }
}

}  // namespace
}  // namespace emplace

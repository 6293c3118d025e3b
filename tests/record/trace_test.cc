// Goal: the trace is what the viewers accept: numbers, sorted, no slice over another on its track, small flow
// ids in pairs.
#include "record/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "executor/simulator.h"
#include "tests/support/sample_graphs.h"

namespace emplace::record {
namespace {

TEST(Trace, IsAcceptedByTheViewersRules) {
  Rng rng{11, Purpose::kTest};
  const OpGraph graph = testing::random_graph(rng, 80);
  const DeviceSet devices = testing::sample_devices(3, true, 1 << 30);
  Simulator simulator{graph, devices};
  Measurement m;
  Schedule schedule;
  ASSERT_TRUE(
      simulator.trace(testing::random_placement(rng, graph.num_ops(), devices.size()), m, schedule).ok());
  ASSERT_FALSE(schedule.transfers.empty());
  const auto trace = nlohmann::json::parse(chrome_trace(graph, devices, schedule));
  double last = 0;
  std::map<std::pair<int, int>, double> free_at;
  std::map<std::int64_t, int> flows;
  std::size_t slices = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "M") continue;
    ASSERT_TRUE(event["ts"].is_number());
    const double ts = event["ts"].get<double>();
    EXPECT_GE(ts, last);
    last = ts;
    if (event["ph"] == "X") {
      double& free = free_at[{event["pid"].get<int>(), event["tid"].get<int>()}];
      EXPECT_GE(ts, free - 1e-6);
      free = ts + event["dur"].get<double>();
      EXPECT_LE(free, m.step_time_s * 1e6 + 1e-6);
      ++slices;
    } else {
      ++flows[event["id"].get<std::int64_t>()];
    }
  }
  EXPECT_EQ(slices, schedule.ops.size() + schedule.transfers.size());
  for (const auto& [id, count] : flows) {
    EXPECT_EQ(count, 2);
    EXPECT_LT(id, std::int64_t{1} << 31);
  }
}

}  // namespace
}  // namespace emplace::record

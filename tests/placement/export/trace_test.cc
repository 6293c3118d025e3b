// Goal: viewers accept the trace: numbers, sorted, no overlapping slices on a track, small flow ids in pairs;
// whatever the names are, and for large graphs too.
// Method: a schedule of the simulator, written and read back.
#include "placement/export/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "executor/sim/simulator.h"
#include "graph/memory_plan.h"
#include "placement/export/trace_writer.h"
#include "placement/order.h"
#include "tests/support/sample_graphs.h"
#include "tests/support/scratch_folder.h"

namespace emplace::interop {
namespace {

using nlohmann::json;

json read(const std::filesystem::path& path) {
  const auto bytes = decompress(*read_file(path), "trace", std::size_t{1} << 30);
  EXPECT_TRUE(bytes.ok());
  const auto* first = reinterpret_cast<const char*>(bytes->data());
  return json::parse(first, first + bytes->size());
}

/// Checks for numbers, sorted, without overlap, and flows that start before they end, each inside a slice.
void expect_sound(const json& trace) {
  double last = 0;
  std::map<std::pair<int, int>, double> free_at;
  std::map<std::int64_t, std::string> flows;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "M") continue;
    ASSERT_TRUE(event["ts"].is_number());
    const double ts = event["ts"].get<double>();
    EXPECT_GE(ts, last);
    last = ts;
    if (event["ph"] == "C") continue;  // A counter belongs to a process, not to a track.
    double& free = free_at[{event["pid"].get<int>(), event["tid"].get<int>()}];
    if (event["ph"] == "X") {
      EXPECT_GE(ts, free - 1e-9) << event;
      free = ts + event["dur"].get<double>();
    } else {
      const auto id = event["id"].get<std::int64_t>();
      EXPECT_LT(id, std::numeric_limits<std::int32_t>::max());
      flows[id] += event["ph"].get<std::string>();
    }
  }
  for (const auto& [id, ends] : flows) EXPECT_EQ(ends, "sf");
}

struct Traced {
  OpGraph graph;
  DeviceSet devices = testing::sample_devices(3, true, std::int64_t{1} << 40);
  Measurement measured;
  Schedule schedule;

  explicit Traced(OpGraph g) : graph{std::move(g)} {
    Rng rng{12, Purpose::kTest};
    Simulator simulator{graph, devices};
    const Placement placement = testing::random_placement(rng, graph.num_ops(), devices.size());
    EXPECT_TRUE(simulator.trace(placement, measured, schedule).ok());
    EXPECT_FALSE(schedule.transfers.empty());
  }
};

TEST(Trace, FollowsTheRulesOfTheViewers) {
  const testing::ScratchFolder folder{"trace"};
  const Traced traced{testing::random_graph(11, 80)};
  ASSERT_TRUE(write_trace(folder.path() / "t.json", traced.graph, traced.devices, traced.schedule).ok());
  const json trace = read(folder.path() / "t.json");
  expect_sound(trace);
  std::size_t slices = 0, ended = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++slices;
    ended +=
        event["ts"].get<double>() + event["dur"].get<double>() <= traced.measured.step_time_s * 1e6 + 1e-3;
  }
  EXPECT_EQ(slices, traced.schedule.ops.size() + traced.schedule.transfers.size());
  EXPECT_EQ(ended, slices);
}

TEST(Trace, CountsTheMemoryOfEachDevice) {
  const testing::ScratchFolder folder{"trace"};
  const Traced traced{testing::random_graph(11, 80)};
  ASSERT_TRUE(write_trace(folder.path() / "t.json", traced.graph, traced.devices, traced.schedule).ok());
  std::vector<std::int64_t> most(traced.devices.size(), 0);
  const json trace = read(folder.path() / "t.json");
  for (const auto& event : trace["traceEvents"])
    if (event["ph"] == "C")
      most[event["pid"].get<std::size_t>()] =
          std::max(most[event["pid"].get<std::size_t>()], event["args"]["memory"].get<std::int64_t>());
  EXPECT_EQ(most, traced.measured.peak_bytes);
}

// Of the ops by hand, f runs again for g, and h waits on the CPU (device 0) until g needs it.
TEST(Trace, NamesWhatAMemoryPlanAdds) {
  const auto back = Phase::kBackward;
  const OpGraph graph =
      testing::sample_graph({{"f", {}, {100}},
                             {"h", {{0, 0}}, {100}},
                             {"loss", {{1, 0}}, {4}},
                             {"g", {{2, 0}, {0, 0}, {1, 0}}, {100}, 1, 1, "Work", false, back}});
  const DeviceSet devices = testing::sample_devices(1, true, 10'000);
  const MemoryPlan plan{.recompute = {OpId{0}}, .moved = {{graph.first_output(OpId{1}), DeviceId{0}}}};
  const PlannedGraph made = planned(graph, plan, devices.names()).value();
  Measurement measured;
  Schedule step;
  ASSERT_TRUE(Simulator(made.graph, devices)
                  .trace(planned(Placement(graph.num_ops(), DeviceId{1}), made), measured, step)
                  .ok());
  const testing::ScratchFolder folder{"trace"};
  ASSERT_TRUE(write_trace(folder.path() / "t.json", made.graph, devices, step).ok());
  std::map<std::string, std::string> categories;  // Categories of ops and copies, by their names.
  const json trace = read(folder.path() / "t.json");
  for (const auto& event : trace["traceEvents"])
    if (event["ph"] == "X")
      categories[event["name"].get<std::string>() + (event["args"].contains("bytes") ? " copied" : "")] =
          event["cat"];
  EXPECT_EQ(categories["f"], "forward");
  EXPECT_EQ(categories["f@again"], "recompute");
  EXPECT_EQ(categories["h copied"], "move") << "to the CPU";
  EXPECT_EQ(categories["h@fetch copied"], "move") << "back";
  EXPECT_EQ(categories["loss@ended copied"], "copy") << "the signal";
}

TEST(Trace, IsCompressedIfItsNameEndsInGz) {
  const testing::ScratchFolder folder{"trace"};
  const Traced traced{testing::random_graph(11, 80)};
  for (const char* name : {"t.json", "t.json.gz"})
    ASSERT_TRUE(write_trace(folder.path() / name, traced.graph, traced.devices, traced.schedule).ok());
  EXPECT_EQ(read(folder.path() / "t.json"), read(folder.path() / "t.json.gz"));
  EXPECT_LT(file_size(folder.path() / "t.json.gz") * 3, file_size(folder.path() / "t.json"));
}

TEST(Trace, IsSmallEnoughForAViewerForALargeGraph) {
  Rng rng{5, Purpose::kTest};
  const testing::ScratchFolder folder{"trace"};
  const Traced traced{testing::layered_graph(rng, 20'000)};
  const auto path = folder.path() / "t.json";
  ASSERT_TRUE(write_trace(path, traced.graph, traced.devices, traced.schedule).ok());
  EXPECT_LT(file_size(path), 300 * (traced.schedule.ops.size() + 3 * traced.schedule.transfers.size()));
  expect_sound(read(path));
}

TEST(TraceWriter, EscapesNames) {
  const testing::ScratchFolder folder{"trace"};
  const std::string evil = "\"}],\n\\ \xff\xfe" + std::string(1, '\0');
  TraceWriter writer{folder.path() / "t.json"};
  writer.name_process(1, evil);
  writer.name_track({1, 2}, evil);
  writer.slice({1, 2}, evil, evil, 1'001, 2'002, "\"a\":" + json_text(evil));
  ASSERT_TRUE(writer.finish().ok());
  const json trace = read(folder.path() / "t.json");
  ASSERT_EQ(trace["traceEvents"].size(), 4u);
  EXPECT_EQ(trace["traceEvents"][3]["ts"].dump(), "1.001") << "to the last nanosecond";
  EXPECT_EQ(trace["traceEvents"][3]["dur"].dump(), "1.001");
}

TEST(TraceWriter, UnfinishedFileIsRemoved) {
  const testing::ScratchFolder folder{"trace"};
  { const TraceWriter writer{folder.path() / "t.json"}; }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  TraceWriter nowhere{folder.path() / "no" / "t.json"};
  EXPECT_EQ(nowhere.finish().error().code, Errc::kIo);
}

}  // namespace
}  // namespace emplace::interop

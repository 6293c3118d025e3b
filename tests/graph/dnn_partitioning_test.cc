// Goal: a workload of dnn-partitioning becomes the graph and the machine that it describes, and a broken one
// is refused in one line that names the place. Method: published workloads, workloads written by hand, and
// every truncation of one.
#include "graph/formats/partitioning/dnn_partitioning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/formats/graph_file.h"
#include "placement/partitioning_machine.h"
#include "placement/placement.h"
#include "tests/support/scratch_folder.h"

namespace emplace {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kDnnFolder = std::string{EMPLACE_FIXTURES} + "/third_party/dnn-partitioning/";

Result<OpGraph> read_dnn(const std::string& text) {
  return parse_graph(std::as_bytes(std::span{text.data(), text.size()}), "work/load.v2.json");
}

/// Three nodes: 7 → 5 → 9, and 7 → 9; 5 comes first in the file.
json sample() {
  const auto node = [](int id, double cpu, double accelerator, double size) {
    return json{{"id", id},
                {"name", "n"},
                {"cpuLatency", cpu},
                {"fpgaLatency", accelerator},
                {"size", size},
                {"colorClass", id},
                {"layerId", 1},
                {"isBackwardNode", false},
                {"supportedOnFpga", 1}};
  };
  const auto edge = [](int from, int to, double cost) {
    return json{{"sourceId", from}, {"destId", to}, {"cost", cost}, {"size", 1}};
  };
  return {{"maxFPGAs", 2},
          {"maxCPUs", 3},
          {"maxSizePerFPGA", 4096.0},
          {"nodes", {node(5, 2, 0.5, 100), node(9, 3, 0.25, 200), node(7, 1, 0.125, 300)}},
          {"edges", {edge(5, 9, 0.001), edge(7, 5, 0.25), edge(7, 9, 0.25), edge(7, 9, 0.25)}}};
}

std::string dnn_error(const std::string& text) {
  const auto graph = read_dnn(text);
  if (graph) return "accepted";
  EXPECT_EQ(graph.error().code, Errc::kInvalid);
  EXPECT_EQ(graph.error().context.find('\n'), std::string::npos);
  EXPECT_THAT(graph.error().context, ::testing::StartsWith("work/load.v2.json"));
  return graph.error().context;
}

/// The error for the sample after a change, or "accepted".
template <class Change>
std::string refused(Change change) {
  json file = sample();
  change(file);
  return dnn_error(file.dump());
}

std::vector<std::string> names(const DeviceSet& devices) {
  std::vector<std::string> list;
  for (const Device& device : devices.devices()) list.push_back(device.name);
  return list;
}

TEST(DnnPartitioning, NodesBecomeOpsInTopologicalOrderWithTheirMeasurements) {
  const auto graph = read_dnn(sample().dump());
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  EXPECT_EQ(graph->name(), "load");
  EXPECT_EQ(graph->source(), "dnn-partitioning");
  ASSERT_EQ(graph->num_ops(), 3u);
  const OpId first{0}, second{1}, last{2};
  EXPECT_EQ(graph->name(first), "n#7");
  EXPECT_EQ(graph->name(second), "n#5");
  EXPECT_EQ(graph->name(last), "n#9");
  EXPECT_EQ(graph->num_edges(), 3u);  // The repeated edge counts once.
  ASSERT_THAT(graph->measured_classes(), ElementsAre("accelerator", "cpu"));
  EXPECT_DOUBLE_EQ(graph->measured_us(second, 0), 500);
  EXPECT_DOUBLE_EQ(graph->measured_us(second, 1), 2000);
  EXPECT_EQ(graph->param_bytes(last), 200);
  EXPECT_EQ(graph->attrs_json(first), R"({"transfer_us":250.0})");
  EXPECT_EQ(graph->bytes(graph->first_output(first)), 3'000'000);  // 250 us at 12 GB/s.
  EXPECT_EQ(graph->bytes(graph->first_output(last)), 0);
  EXPECT_EQ(graph->phase(first), Phase::kForward);
  EXPECT_EQ(graph->colocated_with(second), kNoOp);
}

TEST(DnnPartitioning, KeepsColoursPhasesAndNodesForCpusOnly) {
  json file = sample();
  file["nodes"][0]["colorClass"] = 7;
  file["nodes"][1]["isBackwardNode"] = true;
  file["nodes"][1]["colorClass"] = nullptr;
  file["nodes"][1]["supportedOnFpga"] = false;
  const OpGraph graph = read_dnn(file.dump()).value();
  EXPECT_EQ(graph.colocated_with(OpId{1}), OpId{0});
  EXPECT_EQ(graph.phase(OpId{2}), Phase::kBackward);
  EXPECT_FALSE(graph.has_allowed_devices(OpId{0}));
  // Any core may run it, also the one CPU of latencies.
  const DeviceSet cores = machine_of(graph, Objective::kMaxLoad).value().value();
  const Constraints on_cores = Constraints::make(graph, cores).value();
  for (std::size_t d = 0; d < cores.size(); ++d)
    EXPECT_EQ(on_cores.allows(OpId{2}, static_cast<DeviceId>(d)), d >= 2) << d;
  const DeviceSet one = machine_of(graph, Objective::kLatency).value().value();
  EXPECT_TRUE(Constraints::make(graph, one).value().allows(OpId{2}, DeviceId{2}));
  // Without a CPU no device may run it.
  file["maxCPUs"] = 0;
  const OpGraph stuck = read_dnn(file.dump()).value();
  const auto refused = Constraints::make(stuck, machine_of(stuck, Objective::kMaxLoad).value().value());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().context, "op 'n#9': device 'cpu:*': matches no device of this machine");
}

TEST(DnnPartitioning, MachineDependsOnTheObjective) {
  const OpGraph graph = read_dnn(sample().dump()).value();
  const DeviceSet cores = machine_of(graph, Objective::kThroughput).value().value();
  EXPECT_THAT(names(cores), ElementsAre("accel:0", "accel:1", "cpu:0", "cpu:1", "cpu:2"));
  EXPECT_EQ(cores.devices()[0].memory_bytes, 4096);
  EXPECT_TRUE(cores.is_cpu(DeviceId{2}));
  EXPECT_THAT(names(machine_of(graph, Objective::kLatency).value().value()),
              ElementsAre("accel:0", "accel:1", "cpu:0"));
  EXPECT_EQ(machine_of(graph, Objective::kLatency, 0.25).value().value().devices()[0].memory_bytes, 3072);
  // Other graphs bring no machine.
  EXPECT_FALSE(
      machine_of(load_graph(std::string{EMPLACE_FIXTURES} + "/graphs/cifar10_cnn-bs128.json").value(),
                 Objective::kLatency)
          .value()
          .has_value());
}

TEST(DnnPartitioning, GraphFileKeepsTheMachine) {
  const OpGraph graph = read_dnn(sample().dump()).value();
  const testing::ScratchFolder folder{"dnn-partitioning"};
  ASSERT_TRUE(save_graph(graph, folder.path() / "again.json.gz").ok());
  const OpGraph again = load_graph(folder.path() / "again.json.gz").value();
  EXPECT_EQ(graph_sha256(graph), graph_sha256(again));
  EXPECT_EQ(machine_of(graph, Objective::kMaxLoad).value()->sha256(),
            machine_of(again, Objective::kMaxLoad).value()->sha256());
}

TEST(DnnPartitioning, RefusesATamperedMachine) {
  for (const char* machine : {"7", "{}", R"({"accelerators":-1,"cpus":1,"memory_bytes":1})",
                              R"({"accelerators":300,"cpus":1,"memory_bytes":1})",
                              R"({"accelerators":1.5,"cpus":1,"memory_bytes":1})",
                              R"({"accelerators":1,"cpus":1,"memory_bytes":18446744073709551615})"}) {
    const std::string text =
        std::string{R"({"format":"emplace-graph v1","name":"g","source":"s",)"} +
        R"("meta":{"partitioning":)" + machine +
        R"(},"ops":[{"id":0,"name":"a","type":"t","inputs":[],"outputs":[],"attrs":{},)" +
        R"("flops":0,"param_bytes":0}]})";
    const auto graph = parse_graph(std::as_bytes(std::span{text.data(), text.size()}), "g.json");
    ASSERT_TRUE(graph.ok()) << graph.error().context;
    const auto devices = machine_of(*graph, Objective::kMaxLoad);
    ASSERT_FALSE(devices.ok()) << machine;
    EXPECT_THAT(devices.error().context, HasSubstr("meta.partitioning")) << machine;
  }
}

TEST(DnnPartitioning, ReadsPublishedWorkloads) {
  const OpGraph bert = load_graph(kDnnFolder + "throughput/bert24_training.json").value();
  EXPECT_EQ(bert.name(), "bert24_training");
  std::size_t backward = 0;
  for (std::uint32_t op = 0; op < bert.num_ops(); ++op) backward += bert.phase(OpId{op}) == Phase::kBackward;
  EXPECT_EQ(backward, 32u);
  EXPECT_EQ(bert.num_ops(), 64u);
  const OpGraph ops = load_graph(kDnnFolder + "latency/bert_l-3_inference.json.gz").value();
  EXPECT_EQ(ops.num_ops(), 235u);
  EXPECT_EQ(
      Constraints::make(ops, machine_of(ops, Objective::kLatency).value().value()).value().num_classes(),
      128u);
}

TEST(DnnPartitioning, ErrorsNameThePlace) {
  EXPECT_THAT(
      refused([](json& f) { f["edges"][2]["cost"] = 0.2501; }),
      HasSubstr("edge 2: costs 0.2501, but an earlier edge of node 7 costs 0.25; a node sends one tensor"));
  EXPECT_EQ(refused([](json& f) { f["edges"][2]["cost"] = 0.2500009; }), "accepted");
  EXPECT_THAT(refused([](json& f) { f["edges"][1]["destId"] = 6; }),
              HasSubstr("edge 1: names node 6, which does not exist"));
  EXPECT_THAT(refused([](json& f) { f["edges"][1]["sourceId"] = "5"; }),
              HasSubstr("edge 1: sourceId is not a whole number"));
  EXPECT_THAT(refused([](json& f) { f["edges"][0] = json::array(); }), HasSubstr("edge 0: is not an object"));
  EXPECT_THAT(refused([](json& f) { f["nodes"][1]["id"] = 5; }), HasSubstr("node 1: has the duplicate id 5"));
  EXPECT_THAT(refused([](json& f) { f["nodes"][1] = 3; }), HasSubstr("node 1: is not an object"));
  EXPECT_THAT(refused([](json& f) { f["nodes"][0]["supportedOnFpga"] = "true"; }),
              HasSubstr("node 0: supportedOnFpga is neither true nor false"));
  EXPECT_THAT(refused([](json& f) { f["nodes"][0]["isBackwardNode"] = json::array(); }),
              HasSubstr("node 0: isBackwardNode is neither"));
  EXPECT_THAT(refused([](json& f) { f["nodes"][0]["colorClass"] = 0.5; }),
              HasSubstr("node 0: colorClass is not a whole number"));
  EXPECT_THAT(refused([](json& f) { f["maxFPGAs"] = 0, f["maxCPUs"] = 0; }),
              HasSubstr("does not have 1 to 255 devices"));
  EXPECT_THAT(refused([](json& f) { f["maxFPGAs"] = 255; }), HasSubstr("does not have 1 to 255 devices"));
  EXPECT_THAT(refused([](json& f) { f["maxCPUs"] = 1.5; }), HasSubstr("does not have 1 to 255 devices"));
  EXPECT_THAT(refused([](json& f) { f["maxFPGAs"] = 256; }),
              HasSubstr("maxFPGAs is not a number from 0 to 255"));
  EXPECT_THAT(refused([](json& f) { f["nodes"] = json::array(), f["edges"] = json::array(); }),
              ::testing::Not(HasSubstr("accepted")));
  for (const char* key : {"maxCPUs", "maxSizePerFPGA"})
    EXPECT_THAT(refused([&](json& f) { f.erase(key); }), HasSubstr(std::string{"has no "} + key));
  for (const char* key : {"nodes", "edges"})
    EXPECT_THAT(refused([&](json& f) { f[key] = 1; }), HasSubstr("has no list of nodes and of edges"));
  for (const char* key : {"id", "cpuLatency", "fpgaLatency", "size"})
    EXPECT_THAT(refused([&](json& f) { f["nodes"][2].erase(key); }),
                HasSubstr(std::string{"node 2: has no "} + key));
  for (const char* key : {"sourceId", "destId", "cost"})
    EXPECT_THAT(refused([&](json& f) { f["edges"][0].erase(key); }),
                HasSubstr(std::string{"edge 0: has no "} + key));
  for (const char* key : {"cpuLatency", "fpgaLatency", "size"})
    for (const json& bad : {json(-1), json(1e300), json("1"), json(nullptr), json(true)})
      EXPECT_THAT(refused([&](json& f) { f["nodes"][1][key] = bad; }),
                  HasSubstr(std::string{"node 1: "} + key + " is not a number from 0 to "))
          << bad;
}

TEST(DnnPartitioning, ErrorOfACycleNamesANodeInIt) {
  // 5 only waits for the circle of 7 and 9, and comes first in the file.
  EXPECT_THAT(refused([](json& f) {
                f["edges"] = json::array({{{"sourceId", 7}, {"destId", 9}, {"cost", 1}},
                                          {{"sourceId", 9}, {"destId", 7}, {"cost", 1}},
                                          {{"sourceId", 9}, {"destId", 5}, {"cost", 1}}});
              }),
              ::testing::AnyOf(HasSubstr("node 7: is in a cycle"), HasSubstr("node 9: is in a cycle")));
  EXPECT_THAT(refused([](json& f) { f["edges"][0]["destId"] = 5; }), HasSubstr("node 5: is in a cycle"));
}

TEST(DnnPartitioning, RefusesInvalidNumbersAndDeepJson) {
  std::string text = sample().dump();
  const std::string size = "\"size\":100.0";
  ASSERT_NE(text.find(size), std::string::npos);
  for (const char* bad : {"NaN", "1e400", "-1e400", "Infinity", "0x10", "1."}) {
    std::string broken = text;
    EXPECT_THAT(dnn_error(broken.replace(broken.find(size), size.size(), std::string{"\"size\":"} + bad)),
                HasSubstr("JSON"))
        << bad;
  }
  const std::string deep(200'000, '[');
  EXPECT_THAT(dnn_error("{\"maxFPGAs\":1,\"nodes\":" + deep), HasSubstr("JSON"));
  EXPECT_NE(dnn_error("{\"maxFPGAs\":1,\"nodes\":" + deep + std::string(deep.size(), ']') + "}"), "accepted");
  EXPECT_EQ(dnn_error("\xEF\xBB\xBF" + text), "accepted");
}

TEST(DnnPartitioning, RefusesSizesWhoseSumOverflows) {
  json file = sample();
  const json node = file["nodes"][0];
  for (int id = 100; id < 1400; ++id) {
    file["nodes"].push_back(node);
    file["nodes"].back()["id"] = id;
    file["nodes"].back()["size"] = 1e15;
  }
  EXPECT_THAT(dnn_error(file.dump()), HasSubstr("limit of 2^60 bytes"));
}

TEST(DnnPartitioning, RefusesEveryTruncationInOneLine) {
  const std::string whole = sample().dump();
  for (std::size_t size = 0; size + 1 < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    const auto graph = parse_graph(std::as_bytes(std::span{cut.data(), cut.size()}), "cut",
                                   {.format = parse_format("dnn-partitioning").value()});
    ASSERT_FALSE(graph.ok()) << size;
    EXPECT_EQ(graph.error().context.find('\n'), std::string::npos) << size;
  }
}

TEST(DnnPartitioning, FractionalSizesAreScaled) {
  json file = sample();
  file["maxSizePerFPGA"] = 1.5;
  for (json& node : file["nodes"]) node["size"] = 0.4;
  const auto graph = read_dnn(file.dump());
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  const auto machine = machine_of(*graph, Objective::kMaxLoad);
  ASSERT_TRUE(machine.ok() && *machine);
  EXPECT_EQ((**machine)[DeviceId{0}].memory_bytes, 1'500'000);
  for (std::uint32_t op = 0; op < graph->num_ops(); ++op) EXPECT_EQ(graph->param_bytes(OpId{op}), 400'000);
  EXPECT_THAT(graph_notes(*graph), ElementsAre(HasSubstr("a millionth of")));
  // Larger sizes are rounded up, so that no invalid split passes.
  file["nodes"][0]["size"] = 1e14 + 0.5;
  const auto large = read_dnn(file.dump());
  ASSERT_TRUE(large.ok()) << large.error().context;
  EXPECT_THAT(graph_notes(*large), ElementsAre(HasSubstr("rounded up")));
}

}  // namespace
}  // namespace emplace

// Goal: a placement means the same to the tools that it is written for; where their format cannot express it,
// what they will do instead is known for each op. Method: our own readers that follow the rules of those
// tools, real graphs and small ones.
#include "placement/export/placement_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/rng.h"
#include "graph/formats/graph_file.h"
#include "placement/machine/device_file.h"
#include "tests/support/sample_graphs.h"

namespace emplace::interop {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const std::filesystem::path kGraphs = std::filesystem::path{EMPLACE_FIXTURES} / "graphs";

OpSpec op(std::string name, std::string group, std::vector<EdgeSpec> inputs = {}, std::int64_t elements = 1,
          std::string type = "Relu") {
  OpSpec spec;
  spec.name = std::move(name);
  spec.type = std::move(type);
  spec.group = std::move(group);
  spec.inputs = std::move(inputs);
  spec.outputs = {{DType::kF32, {elements}}};
  return spec;
}
OpGraph graph_of(std::vector<OpSpec> ops) {
  OpGraphBuilder builder;
  for (OpSpec& one : ops) builder.add(std::move(one));
  return std::move(builder).build().value();
}
Placement placement_of(std::initializer_list<int> devices) {
  Placement placement;
  for (const int device : devices) placement.push_back(static_cast<DeviceId>(device));
  return placement;
}
std::vector<std::string> names_of(const DeviceSet& machine) {
  std::vector<std::string> names;
  for (const Device& device : machine.devices()) names.push_back(device.name);
  return names;
}
std::size_t differences(const Placement& a, const Placement& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

const std::vector<std::string> kThree{"cpu:0", "gpu:0", "gpu:1"};

class OnnxExport : public ::testing::Test {
 protected:
  static Bytes bytes_of(const std::string& text) {
    const auto bytes = std::as_bytes(std::span{text});
    return {bytes.begin(), bytes.end()};
  }
  static onnx::ModelProto model_of(const std::string& text) {
    onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(text));
    return model;
  }
  static std::vector<std::pair<std::string, std::string>> metadata(const onnx::NodeProto& node) {
    std::vector<std::pair<std::string, std::string>> entries;
    for (const auto& entry : node.metadata_props()) entries.emplace_back(entry.key(), entry.value());
    return entries;
  }
  static std::string exported(const Bytes& file, const OpGraph& graph, const Placement& placement) {
    const auto made = export_placement(
        "onnx", {.graph = graph, .devices = kThree, .placement = placement, .graph_file = file});
    EXPECT_TRUE(made.ok()) << made.error().context;
    EXPECT_EQ(made->moved_ops, 0u);
    EXPECT_EQ(made->applied, placement);
    return made->content;
  }
};

TEST_F(OnnxExport, ModelNamesTheDeviceOfEveryNodeAndPassesTheChecker) {
  const Bytes file = read_graph_file(kGraphs / "light_squeezenet.onnx").value();
  const OpGraph graph = parse_graph(file, "squeezenet").value();
  Rng rng{7, Purpose::kTest};
  const Placement placement = testing::random_placement(rng, graph.num_ops(), 3);
  const std::string content = exported(file, graph, placement);
  const onnx::ModelProto model = model_of(content);
  EXPECT_EQ(graph_sha256(parse_graph(bytes_of(content), "again").value()), graph_sha256(graph));

  const std::size_t first = graph.num_ops() - static_cast<std::size_t>(model.graph().node_size());
  for (int i = 0; i < model.graph().node_size(); ++i) {
    const OpId op{static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(i)};
    EXPECT_EQ(
        model.graph().node(i).op_type() == "ConstantOfShape" ? "Parameter" : model.graph().node(i).op_type(),
        graph.type_name(op));
    EXPECT_THAT(metadata(model.graph().node(i)),
                ElementsAre(Pair("emplace.device", kThree[index(placement[index(op)])])));
  }
  std::map<std::string, std::string> props;
  for (const auto& entry : model.metadata_props())
    EXPECT_TRUE(props.emplace(entry.key(), entry.value()).second);
  EXPECT_EQ(props.size(), graph.num_ops() + 1);
  EXPECT_EQ(props.at("emplace.graph_sha256"), graph_sha256(graph));
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    EXPECT_EQ(props.at("emplace.device:" + std::string{graph.name(OpId{i})}), kThree[index(placement[i])]);
}

TEST_F(OnnxExport, SecondPlacementReplacesOnlyTheFirst) {
  const Bytes original = read_graph_file(kGraphs / "alexnet.onnx").value();
  onnx::ModelProto before;
  ASSERT_TRUE(before.ParseFromArray(original.data(), static_cast<int>(original.size())));
  auto& theirs = *before.add_metadata_props();
  theirs.set_key("author");
  theirs.set_value("somebody");
  before.mutable_graph()->mutable_node(0)->set_doc_string("the first");
  *before.mutable_graph()->mutable_node(0)->add_metadata_props() = theirs;
  const Bytes file = bytes_of(before.SerializeAsString());
  const OpGraph graph = parse_graph(file, "alexnet").value();
  const std::string once = exported(file, graph, Placement(graph.num_ops(), DeviceId{1}));
  const std::string twice = exported(bytes_of(once), graph, Placement(graph.num_ops(), DeviceId{2}));
  const onnx::ModelProto model = model_of(twice);
  EXPECT_EQ(model.metadata_props(0).value(), "somebody");
  EXPECT_EQ(static_cast<std::size_t>(model.metadata_props_size()), 2 + graph.num_ops());
  EXPECT_EQ(model.graph().node(0).doc_string(), "the first");
  EXPECT_THAT(metadata(model.graph().node(0)),
              ElementsAre(Pair("author", "somebody"), Pair("emplace.device", "gpu:1")));
  onnx::ModelProto without_list = model;
  without_list.clear_configuration();  // The configuration lists all devices.
  EXPECT_EQ(without_list.SerializeAsString().find("gpu:0"), std::string::npos);
}

TEST_F(OnnxExport, DeviceConfigurationsCoverAllValuesOfANode) {
  const Bytes file = read_graph_file(kGraphs / "light_squeezenet.onnx").value();
  const OpGraph graph = parse_graph(file, "squeezenet").value();
  Rng rng{8, Purpose::kTest};
  const Placement placement = testing::random_placement(rng, graph.num_ops(), 3);
  const std::string once = exported(file, graph, placement);
  // A second export replaces the configuration of the first; that of another tool stays.
  onnx::ModelProto before = model_of(once);
  before.add_configuration()->set_name("theirs");
  before.mutable_graph()->mutable_node(0)->add_device_configurations()->set_configuration_id("theirs");
  const Bytes again = bytes_of(before.SerializeAsString());
  const onnx::ModelProto model = model_of(exported(again, graph, placement));
  ASSERT_EQ(model.configuration_size(), 2);
  EXPECT_EQ(model.configuration(0).name(), "theirs");
  EXPECT_EQ(model.configuration(1).name(), "emplace");
  EXPECT_EQ(model.configuration(1).num_devices(), 3);
  EXPECT_THAT(std::vector<std::string>(model.configuration(1).device().begin(),
                                       model.configuration(1).device().end()),
              ElementsAre("cpu:0", "gpu:0", "gpu:1"));
  EXPECT_EQ(model.graph().node(0).device_configurations_size(), 2);
  const std::size_t first = graph.num_ops() - static_cast<std::size_t>(model.graph().node_size());
  for (int i = 0; i < model.graph().node_size(); ++i) {
    const auto& node = model.graph().node(i);
    const auto& ours = *node.device_configurations().rbegin();
    EXPECT_EQ(ours.configuration_id(), "emplace");
    std::set<std::string> values{node.input().begin(), node.input().end()};
    values.insert(node.output().begin(), node.output().end());
    EXPECT_EQ(static_cast<std::size_t>(ours.sharding_spec_size()), values.size());
    for (const auto& spec : ours.sharding_spec()) {
      EXPECT_TRUE(values.contains(spec.tensor_name())) << spec.tensor_name();
      EXPECT_THAT(
          std::vector<std::int64_t>(spec.device().begin(), spec.device().end()),
          ElementsAre(static_cast<std::int64_t>(index(placement[first + static_cast<std::size_t>(i)]))));
    }
  }
}

TEST_F(OnnxExport, IrVersionAllowsDeviceConfigurationsUnlessWeightsAreInputs) {
  for (const auto& [before, after] : {std::pair{3, 3}, {4, 11}, {10, 11}, {13, 13}}) {
    onnx::ModelProto model;
    model.set_ir_version(before);
    model.add_opset_import()->set_version(13);
    auto& input = *model.mutable_graph()->add_input();
    input.set_name("x");
    input.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    input.mutable_type()->mutable_tensor_type()->mutable_shape();
    auto& node = *model.mutable_graph()->add_node();
    node.set_op_type("Relu");
    node.add_input("x");
    node.add_output("y");
    const Bytes file = bytes_of(model.SerializeAsString());
    const OpGraph graph = parse_graph(file, "made").value();
    EXPECT_EQ(model_of(exported(file, graph, placement_of({0, 1}))).ir_version(), after);
  }
}

TEST_F(OnnxExport, UnnamedNodesGetTheirNameFromThePlacement) {
  onnx::ModelProto model;
  model.set_ir_version(7);
  model.add_opset_import()->set_version(13);
  model.mutable_graph()->set_name("made");
  const auto tensor = [](onnx::ValueInfoProto& value, const char* name) {
    value.set_name(name);
    value.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    value.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(4);
  };
  tensor(*model.mutable_graph()->add_input(), "x");
  tensor(*model.mutable_graph()->add_output(), "c");
  for (const auto& [name, from, to] : {std::tuple{"", "x", "a"}, {"twin", "a", "b"}, {"twin", "b", "c"}}) {
    auto& node = *model.mutable_graph()->add_node();
    node.set_op_type("Relu");
    node.set_name(name);
    node.add_input(from);
    node.add_output(to);
  }
  const Bytes file = bytes_of(model.SerializeAsString());
  const OpGraph graph = parse_graph(file, "made").value();
  const onnx::ModelProto after = model_of(exported(file, graph, placement_of({0, 0, 1, 2})));
  EXPECT_EQ(after.graph().node(0).name(), "Relu#0");
  EXPECT_EQ(after.graph().node(2).name(), "twin#2");
  EXPECT_EQ(graph_sha256(parse_graph(bytes_of(after.SerializeAsString()), "again").value()),
            graph_sha256(graph));
}

TEST_F(OnnxExport, PlacementOfAnotherGraphIsRefused) {
  const OpGraph graph = graph_of({op("a", "")});
  const Bytes text = bytes_of("{}");
  for (const Bytes& file : {Bytes{}, text}) {
    const auto made = export_placement(
        "onnx", {.graph = graph, .devices = kThree, .placement = placement_of({0}), .graph_file = file});
    ASSERT_FALSE(made.ok());
    EXPECT_THAT(made.error().context, AllOf(HasSubstr("--to onnx"), HasSubstr(".onnx file")));
  }
}

TEST(TensorflowExport, EveryOpHasTheFullNameOfItsDevice) {
  const OpGraph graph = graph_of({op("a/b", ""), op("c", "", {{0, 0}})});
  const Placement placement = placement_of({2, 0});
  const auto made =
      export_placement("tensorflow", {.graph = graph, .devices = kThree, .placement = placement});
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(made->moved_ops, 0u);
  EXPECT_EQ(json::parse(made->content), json::parse(R"({"a/b": "/job:localhost/replica:0/task:0/device:GPU:1",
                                                        "c": "/job:localhost/replica:0/task:0/device:CPU:0"})"));
  const auto list = export_placement(
      "tensorflow", {.graph = graph, .devices = kThree, .placement = placement, .output = "devices.txt"});
  EXPECT_EQ(list->content,
            "a/b\t/job:localhost/replica:0/task:0/device:GPU:1\n"
            "c\t/job:localhost/replica:0/task:0/device:CPU:0\n");
  const OpGraph hostile = graph_of({op("a\tb", "")});
  const auto refused = export_placement(
      "tensorflow",
      {.graph = hostile, .devices = kThree, .placement = placement_of({0}), .output = "devices.txt"});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().context, HasSubstr("'a\\x09b'"));
}

// Joins stand for control edges; TensorFlow has no such node.
TEST(TensorflowExport, OmitsJoinsThatTheReaderAdded) {
  std::vector<OpSpec> ops{op("a", ""), op("emplace/join#0", "", {{0, 0}}),
                          op("emplace/join#1", "", {{0, 0}})};
  ops[1].attrs_json = R"({"join":true})";
  const OpGraph graph = graph_of(std::move(ops));
  const auto exported_as = [&](const char* output) {
    return export_placement(
               "tensorflow",
               {.graph = graph, .devices = kThree, .placement = placement_of({0, 0, 0}), .output = output})
        .value()
        .content;
  };
  const json map = json::parse(exported_as("devices.json"));
  EXPECT_EQ(map.size(), 2u);
  EXPECT_TRUE(map.contains("a"));
  EXPECT_TRUE(map.contains("emplace/join#1")) << "a node of that name is a node";
  EXPECT_THAT(exported_as("devices.txt"), ::testing::Not(HasSubstr("join#0")));
}

constexpr std::string_view kTwoHosts = R"(
[[device]]
name = "cpu:0"
profile = "haswell18"
host = "one"
[[device]]
name = "gpu:0"
profile = "k40"
host = "one"
[[device]]
name = "gpu:1"
profile = "k40"
host = "two"
[[device]]
name = "gpu:2"
profile = "k40"
host = "two"
[[link]]
between = ["*", "*"]
bandwidth = "1GB/s"
latency = "10us"
)";

TEST(TensorflowExport, HostsAreTasksWithTheirOwnDeviceNumbers) {
  const auto machine = parse_devices(kTwoHosts, "two-hosts.toml");
  ASSERT_TRUE(machine.ok()) << machine.error().context;
  const auto names = names_of(*machine);
  const OpGraph graph = graph_of({op("a", ""), op("b", ""), op("c", "")});
  const Placement placement = placement_of({1, 2, 3});
  const auto made = export_placement(
      "tensorflow", {.graph = graph, .devices = names, .placement = placement, .machine = &*machine});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(json::parse(made->content), json::parse(R"({"a": "/job:worker/replica:0/task:0/device:GPU:0",
                                                        "b": "/job:worker/replica:0/task:1/device:GPU:0",
                                                        "c": "/job:worker/replica:0/task:1/device:GPU:1"})"));
  for (const char* format : {"accelerate", "openvino"}) {
    const auto refused = export_placement(
        format, {.graph = graph, .devices = names, .placement = placement, .machine = &*machine});
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().context,
                AllOf(HasSubstr("'gpu:1'"), HasSubstr("not on the same host"), HasSubstr(format)));
  }
}

TEST(PlacementExportDevices, MachineDecidesWhereANameIsAmbiguous) {
  const OpGraph graph = graph_of({op("a", "m"), op("b", "n")});
  const std::vector<std::string> names{"front", "back"};
  const Placement placement = placement_of({0, 1});
  for (const char* format : {"accelerate", "tensorflow", "openvino"}) {
    const auto refused = export_placement(format, {.graph = graph, .devices = names, .placement = placement});
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().context, AllOf(HasSubstr("'front'"), HasSubstr("--devices"))) << format;
  }
  Device front{"front", find_profile("haswell18").value(), 1 << 30, ""};
  Device back{"back", find_profile("k40").value(), 1 << 30, ""};
  const DeviceSet machine = DeviceSet::make({front, back}, Link{1e9, 0}).value();
  const auto made = export_placement(
      "openvino", {.graph = graph, .devices = names, .placement = placement, .machine = &machine});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(json::parse(made->content), json::parse(R"({"a": "CPU", "b": "GPU.0"})"));
  // A device that no op is on may have any name.
  EXPECT_TRUE(
      export_placement("tensorflow",
                       {.graph = graph, .devices = {"gpu:0", "odd"}, .placement = placement_of({0, 0})})
          .ok());
}

TEST(OpenvinoExport, MergesCpusAndCountsTheMovedOps) {
  const OpGraph graph = graph_of({op("a", ""), op("b", ""), op("c", ""), op("d", "")});
  const Placement placement = placement_of({0, 1, 1, 2});
  const auto made = export_placement(
      "openvino", {.graph = graph, .devices = {"cpu:0", "cpu:1", "gpu:1"}, .placement = placement});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->moved_ops, 2u);
  EXPECT_EQ(made->applied, placement_of({0, 0, 0, 2}));
  EXPECT_EQ(json::parse(made->content), json::parse(R"({"a": "CPU", "b": "CPU", "c": "CPU", "d": "GPU.1"})"));
}

// OpenVINO calls an operator like the output of the model that it makes, or like its tensor if it has no
// name.
TEST(OpenvinoExport, NamesOfOutputsAreInTheMap) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  const auto value = [](onnx::ValueInfoProto& info, const char* name) {
    info.set_name(name);
    auto& type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT);
    type.mutable_shape()->add_dim()->set_dim_value(4);
  };
  value(*model.mutable_graph()->add_input(), "x");
  const auto node = [&](const char* name, const char* input, const char* output) {
    auto& added = *model.mutable_graph()->add_node();
    added.set_name(name);
    added.set_op_type("Relu");
    added.add_input(input);
    added.add_output(output);
  };
  node("first", "x", "a");  // Also read by another node.
  node("", "a", "b");
  node("c", "b", "d");
  node("last", "d", "c");  // Its output is called like another node.
  for (const char* output : {"a", "c"}) value(*model.mutable_graph()->add_output(), output);
  const std::string text = model.SerializeAsString();
  const auto view = std::as_bytes(std::span{text});
  const Bytes file{view.begin(), view.end()};
  const OpGraph graph = parse_graph(file, "made").value();
  const auto made = export_placement(
      "openvino",
      {.graph = graph, .devices = kThree, .placement = placement_of({0, 1, 2, 1, 2}), .graph_file = file});
  ASSERT_TRUE(made.ok()) << made.error().context;
  const json map = json::parse(made->content);
  EXPECT_EQ(map["a"], "GPU.0");
  EXPECT_EQ(map["b"], "GPU.1");
  EXPECT_EQ(map["c"], "GPU.0");
  EXPECT_EQ(map["c_1"], "GPU.1");
  EXPECT_TRUE(made->exact());
  const auto unknown = export_placement(
      "openvino", {.graph = graph, .devices = kThree, .placement = placement_of({0, 1, 2, 1, 2})});
  EXPECT_FALSE(unknown->exact()) << "without the file the names of the outputs are unknown";
}

json map_of(const OpGraph& graph, const Placement& placement, Placement* applied = nullptr,
            const DeviceSet* machine = nullptr) {
  const auto names = machine != nullptr ? names_of(*machine) : kThree;
  const auto made = export_placement(
      "accelerate", {.graph = graph, .devices = names, .placement = placement, .machine = machine});
  EXPECT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(made->moved_ops, differences(made->applied, placement));
  if (applied != nullptr) *applied = made->applied;
  return json::parse(made->content);
}

TEST(AccelerateExport, ModulesGoWhereMostOfTheirWorkIs) {
  Placement applied;
  const OpGraph graph =
      graph_of({op("w", "net/a", {}, 1 << 20, "Parameter"), op("v", "net/b/x", {}, 8, "Parameter"),
                op("u", "head", {}, 8, "Parameter"), op("a1", "net/a", {{0, 0}}, 1 << 20),
                op("a2", "net/a", {{3, 0}}, 8), op("b1", "net/b/x", {{4, 0}, {1, 0}}),
                op("b2", "net/b/y", {{5, 0}}), op("c", "head", {{6, 0}, {2, 0}})});
  EXPECT_EQ(map_of(graph, placement_of({1, 2, 0, 1, 2, 2, 2, 0}), &applied),
            json::parse(R"({"net.a": 0, "net.b": 1, "head": "cpu"})"));
  EXPECT_EQ(applied, placement_of({1, 2, 0, 1, 1, 2, 2, 0}));
  EXPECT_EQ(map_of(graph, Placement(8, DeviceId{2})), json::parse(R"({"": 1})"));
}

TEST(AccelerateExport, TimeDecidesIfTheMachineIsGiven) {
  // The measured times make the large op fast where it is, and the small one slow on the CPU.
  OpSpec large = op("large", "m", {}, 1 << 20), small = op("small", "m");
  large.measured_us = {{"gpu", 1}, {"cpu", 1}};
  small.measured_us = {{"gpu", 1}, {"cpu", 900}};
  const OpGraph graph = graph_of({large, small, op("other", "n", {{1, 0}})});
  const DeviceSet machine = testing::sample_devices(2, true, 1 << 30);
  EXPECT_EQ(map_of(graph, placement_of({1, 0, 2}))["m"], 0);
  EXPECT_EQ(map_of(graph, placement_of({1, 0, 2}), nullptr, &machine)["m"], "cpu");
}

TEST(AccelerateExport, ModuleThatJoinsTensorsIsNotSplit) {
  Placement applied;
  // block = x + second(first(x)); the addition is the block's own code.
  OpSpec first = op("first", "net/block/first", {{0, 0}});
  first.flops = 1000;
  const OpGraph residual =
      graph_of({op("x", "input", {}, 1, "Input"), first, op("second", "net/block/second", {{1, 0}}),
                op("add", "net/block", {{0, 0}, {2, 0}}), op("head", "net/head", {{3, 0}})});
  EXPECT_EQ(map_of(residual, placement_of({1, 1, 2, 2, 2}), &applied),
            json::parse(R"({"net.block": 0, "net.head": 1})"));
  EXPECT_EQ(applied, placement_of({1, 1, 1, 1, 2}));
}

TEST(AccelerateExport, CodeOutsideModulesRunsWhereItsInputIs) {
  Placement applied;
  const OpGraph graph =
      graph_of({op("a", "net/a", {{6, 0}}), op("flatten", "net", {{0, 0}}), op("view", "", {{1, 0}}),
                op("b", "net/b", {{2, 0}}), op("weight", "", {}, 4, "Parameter"),
                op("mm", "net/b", {{3, 0}, {4, 0}}, 64), op("other", "", {}, 4, "Parameter")});
  EXPECT_EQ(map_of(graph, placement_of({1, 2, 2, 2, 1, 2, 1}), &applied),
            json::parse(R"({"net.a": 0, "net.b": 1})"));
  EXPECT_EQ(applied, placement_of({1, 1, 1, 2, 2, 2, 1}));
}

/// A body in the form of most transformers: positions are added to words in its own code, then blocks that
/// add their input to their result. The last op is the head; `tied`: it reads the words' weight.
OpGraph body(bool tied) {
  std::vector<OpSpec> ops{op("ids", "input", {}, 4, "Input"),
                          op("w", "body/words", {}, 64, "Parameter"),
                          op("p", "body/places", {}, 64, "Parameter"),
                          op("words", "body/words", {{0, 0}, {1, 0}}),
                          op("places", "body/places", {{0, 0}, {2, 0}}),
                          op("sum", "body", {{3, 0}, {4, 0}})};
  std::uint32_t last = 5;
  for (int k = 0; k < 3; ++k) {
    const std::string block = "body/layers/" + std::to_string(k);
    const auto at = static_cast<std::uint32_t>(ops.size());
    ops.push_back(op(block + "/w", block + "/up", {}, 64, "Parameter"));
    ops.push_back(op(block + "/up", block + "/up", {{last, 0}, {at, 0}}));
    ops.push_back(op(block + "/add", block, {{last, 0}, {at + 1, 0}}));
    last = at + 2;
  }
  ops.push_back(op("h", "head", {}, 64, "Parameter"));
  const auto weight = tied ? 1u : static_cast<std::uint32_t>(ops.size() - 1);
  if (tied) ops.pop_back();
  ops.push_back(op("head", "head", {{last, 0}, {weight, 0}}));
  return graph_of(std::move(ops));
}

TEST(AccelerateExport, BodyThatAddsPositionsIsSplitBetweenItsBlocks) {
  Placement applied;
  const OpGraph graph = body(/*tied=*/false);
  // Words and positions, which the body adds, are together; each block is whole.
  const auto map = map_of(graph, placement_of({1, 1, 2, 1, 2, 1, 1, 1, 2, 2, 2, 1, 2, 2, 2, 2, 2}), &applied);
  EXPECT_EQ(map, json::parse(R"({"body.words": 0, "body.places": 0, "body.layers.0": 0, "body.layers.1": 1,
                                 "body.layers.2": 1, "head": 1})"));
  EXPECT_EQ(applied, placement_of({1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}));
}

TEST(AccelerateExport, ModulesOfATiedWeightAreTogetherAndTheTreeNamesTheirTensors) {
  const OpGraph graph = body(/*tied=*/true);
  const Placement placement = placement_of({1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2});
  const auto made = export_placement(
      "accelerate",
      {.graph = graph,
       .devices = kThree,
       .placement = placement,
       .modules = {"body", "body.words", "body.places", "body.layers", "body.layers.0", "body.layers.1",
                   "body.layers.2", "body.layers.0.up", "body.layers.1.up", "body.layers.2.up", "head",
                   "other", "w", "p", "head.weight = w", "other.weight = w"}});
  ASSERT_TRUE(made.ok()) << made.error().context;
  const json map = json::parse(made->content);
  EXPECT_EQ(map["head"], map["body.words"]) << map;
  EXPECT_EQ(map["other"], map["body.words"]) << "only the tree knows it: " << map;
  EXPECT_EQ(map["body.layers.2"], 1) << map;
  EXPECT_EQ(made->moved_ops, 1u);
  EXPECT_FALSE(made->exact());
}

TEST(AccelerateExport, ModulesOnTheCpuBesideGpusAreALoss) {
  const OpGraph graph = body(false);
  const auto made = export_placement(
      "accelerate", {.graph = graph,
                     .devices = kThree,
                     .placement = placement_of({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0})});
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(made->moved_ops, 0u);
  EXPECT_FALSE(made->exact()) << "accelerate computes there on a GPU";
  EXPECT_THAT(made->losses, ElementsAre(HasSubstr("'cpu'")));
}

TEST(AccelerateExport, UpdatesStayWithTheirWeightsAndOnnxNamesAreModules) {
  Placement applied;
  OpSpec update = op("u", "optim", {{0, 0}});
  update.colocate = OpId{0};
  update.phase = Phase::kUpdate;
  const OpGraph graph = graph_of({op("w", "layer1/layer1.0/conv1", {}, 64, "Parameter"),
                                  op("c", "layer1/layer1.0/conv1", {{0, 0}}, 64), update,
                                  op("d", "layer1/layer1.1/conv1", {{1, 0}, {4, 0}}, 64),
                                  op("v", "layer1/layer1.1/conv1", {}, 64, "Parameter")});
  EXPECT_EQ(map_of(graph, placement_of({1, 1, 1, 2, 2}), &applied),
            json::parse(R"({"layer1.0": 0, "layer1.1": 1})"));
  EXPECT_EQ(applied, placement_of({1, 1, 1, 2, 2}));
}

/// Device by accelerate's rule: the longest entry that is the module or contains it.
DeviceId resolved(const json& map, std::string module, const std::vector<std::string>& devices) {
  for (;; module = module.substr(0, module.rfind('.'))) {
    if (map.contains(module)) {
      const std::string word = map[module].is_string() ? "cpu:0" : "gpu:" + map[module].dump();
      return static_cast<DeviceId>(std::find(devices.begin(), devices.end(), word) - devices.begin());
    }
    if (module.find('.') == std::string::npos) break;
  }
  return map.contains("") ? resolved(json{{"a", map[""]}}, "a", devices) : DeviceId{255};
}

TEST(AccelerateExport, ReaderOfTheMapGetsTheReportedPlacement) {
  const OpGraph graph = load_graph(kGraphs / "resnet50-bs32.json.gz").value();
  const DeviceSet machine = testing::sample_devices(2, true, std::int64_t{1} << 40);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Rng rng{seed, Purpose::kTest};
    Placement placement = testing::random_placement(rng, graph.num_ops(), 3), applied;
    if (seed % 2 == 1) {  // Placed by module, as by hand.
      std::map<std::string, DeviceId, std::less<>> of;
      for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
        placement[i] = of.try_emplace(std::string{graph.group_name(OpId{i})}, placement[i]).first->second;
    }
    const json map = map_of(graph, placement, &applied, &machine);
    std::size_t checked = 0;
    for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
      OpId leader{i};
      while (graph.colocated_with(leader) != kNoOp) leader = graph.colocated_with(leader);
      std::string module{graph.group_name(leader)};
      std::replace(module.begin(), module.end(), '/', '.');
      if (module.empty() || graph.type_name(OpId{i}) == "Input") continue;
      // A module without weights has no entry: it runs where its input is.
      if (resolved(map, module, names_of(machine)) == DeviceId{255}) continue;
      EXPECT_EQ(resolved(map, module, names_of(machine)), applied[i]) << module << " seed " << seed;
      ++checked;
      // The blocks have residual connections, so each is whole.
      if (!module.starts_with("layer") || std::count(module.begin(), module.end(), '.') < 2) continue;
      EXPECT_EQ(applied[i], resolved(map, module.substr(0, 8), names_of(machine))) << module;
    }
    EXPECT_GT(checked, 1000u);
  }
}

TEST(AccelerateExport, DeepAndOddScopesAreKept) {
  std::string deep;
  for (int i = 0; i < 20'000; ++i) deep += "a/";
  const OpGraph graph =
      graph_of({op("a", deep), op("b", "..", {{0, 0}}), op("c", "/", {{1, 0}}), op("d", ".", {{2, 0}})});
  for (const Placement& placement : {placement_of({1, 2, 1, 2}), placement_of({1, 1, 1, 1})})
    EXPECT_FALSE(map_of(graph, placement).empty());
}

TEST(PlacementFormats, UnknownFormatSuggestsTheNearest) {
  const OpGraph graph = graph_of({op("a", "")});
  const auto made =
      export_placement("acelerate", {.graph = graph, .devices = kThree, .placement = placement_of({0})});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().context,
              AllOf(HasSubstr("onnx, submodels, accelerate, pipelining, vllm, deepspeed, tensorflow, "
                              "openvino, dot, csv"),
                    HasSubstr("did you mean 'accelerate'?")));
}

}  // namespace
}  // namespace emplace::interop

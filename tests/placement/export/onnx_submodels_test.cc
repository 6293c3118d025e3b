// Goal: sub-models contain every node once, read only values of the model or an earlier part, and contain the
// weights that they read, wherever these were. Method: real models and small ones made here, cut and read
// back as ONNX files; the number of parts against all orders of small graphs. That a chain computes what the
// whole model computes is tested in tests/executor/cpu/submodels_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/rng.h"
#include "base/text/words.h"
#include "graph/formats/graph_file.h"
#include "placement/export/parts.h"
#include "placement/export/placement_export.h"
#include "tests/support/sample_graphs.h"

namespace emplace::interop {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

void expect_runnable(const OpGraph& graph, const Placement& placement, const std::vector<Part>& parts) {
  std::vector<std::size_t> part_of(graph.num_ops(), parts.size());
  std::size_t ops = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    EXPECT_FALSE(parts[p].ops.empty());
    for (const OpId op : parts[p].ops) {
      EXPECT_EQ(placement[index(op)], parts[p].device);
      EXPECT_EQ(part_of[index(op)], parts.size()) << "an op of two parts";
      part_of[index(op)] = p;
      ++ops;
    }
  }
  std::size_t computing = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    if (graph.is_state(OpId{i})) continue;
    ++computing;
    for (const TensorId input : graph.inputs(OpId{i})) {
      const OpId producer = graph.producer(input);
      EXPECT_TRUE(graph.is_state(producer) || part_of[index(producer)] <= part_of[i]) << "reads a later part";
    }
  }
  EXPECT_EQ(ops, computing);
}

/// The fewest runs of one device over all topological orders, by dynamic programming over sets of ops.
std::size_t fewest_runs(const OpGraph& graph, const Placement& placement) {
  const std::size_t n = graph.num_ops(), devices = 2;
  std::vector<std::uint32_t> needs(n, 0);
  for (std::uint32_t i = 0; i < n; ++i)
    for (const TensorId input : graph.inputs(OpId{i})) needs[i] |= 1u << index(graph.producer(input));
  constexpr std::size_t kNever = 1000;
  std::vector<std::size_t> best((std::size_t{1} << n) * devices, kNever);
  best[0] = best[1] = 0;
  for (std::uint32_t set = 0; set < 1u << n; ++set) {
    for (std::size_t last = 0; last < devices; ++last) {
      if (best[set * devices + last] == kNever) continue;
      for (std::uint32_t i = 0; i < n; ++i) {
        if ((set >> i & 1) != 0 || (needs[i] & ~set) != 0) continue;
        const std::size_t device = index(placement[i]);
        auto& value = best[(set | 1u << i) * devices + device];
        value = std::min(value, best[set * devices + last] + (device != last || set == 0 ? 1 : 0));
      }
    }
  }
  const std::size_t all = (std::size_t{1} << n) - 1;
  return std::min(best[all * devices], best[all * devices + 1]);
}

TEST(Parts, RunInOrderOnAnyNumberOfDevices) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph = testing::random_graph(rng, 60);
    const Placement placement = testing::random_placement(rng, graph.num_ops(), 1 + seed % 6);
    expect_runnable(graph, placement, cut_into_parts(graph, placement));
  }
}

TEST(Parts, AreMinimalOnTwoDevices) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph = testing::layered_graph(rng, 10);
    const Placement placement = testing::random_placement(rng, graph.num_ops(), 2);
    const auto parts = cut_into_parts(graph, placement);
    expect_runnable(graph, placement, parts);
    EXPECT_EQ(parts.size(), fewest_runs(graph, placement)) << "seed " << seed;
  }
}

TEST(Parts, ConsecutiveRangesGiveOnePartPerDevice) {
  Rng rng{4, Purpose::kTest};
  const OpGraph graph = testing::layered_graph(rng, 400);
  for (const std::size_t devices : {2u, 3u, 4u, 7u}) {
    Placement placement(graph.num_ops(), DeviceId{0});
    const auto order = graph.topological_order();
    for (std::size_t k = 0; k < order.size(); ++k)
      placement[index(order[k])] = static_cast<DeviceId>(k * devices / order.size());
    EXPECT_EQ(cut_into_parts(graph, placement).size(), devices);
  }
}

void add_value(onnx::ValueInfoProto& value, const std::string& name, std::vector<std::int64_t> shape = {4}) {
  value.set_name(name);
  auto& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t dim : shape) type.mutable_shape()->add_dim()->set_dim_value(dim);
}

void add_node(onnx::GraphProto& graph, const std::string& type, const std::string& name,
              const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  auto& node = *graph.add_node();
  node.set_op_type(type);
  node.set_name(name);
  for (const auto& input : inputs) node.add_input(input);
  for (const auto& output : outputs) node.add_output(output);
}

onnx::TensorProto& add_weight(onnx::GraphProto& graph, const std::string& name, std::int64_t elements = 4) {
  auto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(elements);
  tensor.set_raw_data(std::string(static_cast<std::size_t>(elements) * 4, name.back()));
  return tensor;
}

onnx::ModelProto made_model(std::int64_t ir_version = 8) {
  onnx::ModelProto model;
  model.set_ir_version(ir_version);
  model.add_opset_import()->set_version(17);
  model.mutable_graph()->set_name("made");
  return model;
}

class Submodels : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path{::testing::TempDir()} /
              ("submodels_" + std::string{::testing::UnitTest::GetInstance()->current_test_info()->name()});
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Bytes content_of(const onnx::ModelProto& model) {
    const std::string text = model.SerializeAsString();
    const auto bytes = std::as_bytes(std::span{text});
    return {bytes.begin(), bytes.end()};
  }
  /// Places every op on the device that `device_of` returns for its name.
  Result<ExportedPlacement> cut(const Bytes& file, const std::function<int(std::string_view)>& device_of) {
    graph_ = parse_graph(file, "made").value();
    Placement placement;
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i)
      placement.push_back(static_cast<DeviceId>(device_of(graph_.name(OpId{i}))));
    const std::string output = parts().string();
    auto made = export_placement("submodels", {.graph = graph_,
                                               .devices = devices_,
                                               .placement = placement,
                                               .graph_file = file,
                                               .output = output,
                                               .graph_folder = folder_});
    if (made.ok()) {
      EXPECT_TRUE(write_file(parts() / made->file, made->content).ok());
      manifest_ = json::parse(made->content);
    }
    return made;
  }
  fs::path parts() const { return folder_ / "parts"; }
  onnx::ModelProto part(std::size_t number) const {
    onnx::ModelProto model;
    const Bytes bytes = read_file(parts() / manifest_["parts"][number]["file"].get<std::string>()).value();
    EXPECT_TRUE(model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
    return model;
  }
  static std::vector<std::string> weights_of(const onnx::ModelProto& model) {
    std::vector<std::string> names;
    for (const auto& tensor : model.graph().initializer()) names.push_back(tensor.name());
    return names;
  }
  static std::vector<std::string> inputs_of(const onnx::ModelProto& model) {
    std::vector<std::string> names;
    for (const auto& input : model.graph().input()) names.push_back(input.name());
    return names;
  }
  /// x → first (+w) → second (+v) → y.
  static onnx::ModelProto two_sums(std::int64_t ir_version = 8) {
    onnx::ModelProto model = made_model(ir_version);
    onnx::GraphProto& graph = *model.mutable_graph();
    add_value(*graph.add_input(), "x");
    add_value(*graph.add_output(), "y");
    add_weight(graph, "w");
    add_weight(graph, "v");
    add_node(graph, "Add", "first", {"x", "w"}, {"a"});
    add_node(graph, "Add", "second", {"a", "v"}, {"y"});
    return model;
  }

  const std::vector<std::string> devices_{"cpu:0", "gpu:0", "gpu:1"};
  fs::path folder_;
  OpGraph graph_;
  json manifest_;
};

TEST_F(Submodels, ContainEveryNodeOnceAndChainByName) {
  const Bytes file = read_graph_file(fs::path{EMPLACE_FIXTURES} / "graphs" / "light_squeezenet.onnx").value();
  Rng rng{9, Purpose::kTest};
  ASSERT_TRUE(cut(file, [&](std::string_view) { return static_cast<int>(rng.below(3)); }).ok());
  EXPECT_EQ(manifest_["format"], "emplace-submodels");
  EXPECT_EQ(manifest_["graph_sha256"], graph_sha256(graph_));
  std::set<std::string> values;
  for (const json& name : manifest_["inputs"]) values.insert(name);
  std::map<std::string, int> nodes;
  for (std::size_t p = 0; p < manifest_["parts"].size(); ++p) {
    const json& listed = manifest_["parts"][p];
    const onnx::ModelProto model = part(p);
    // This file is of IR version 3: its weights are inputs, too.
    std::vector<std::string> fed = inputs_of(model);
    const std::vector<std::string> weights = weights_of(model);
    std::erase_if(fed, [&](const auto& name) {
      return std::find(weights.begin(), weights.end(), name) != weights.end();
    });
    EXPECT_EQ(fed, listed["inputs"].get<std::vector<std::string>>());
    EXPECT_EQ(listed["nodes"], model.graph().node_size());
    std::set<std::string> known = values;
    for (const auto& name : fed) EXPECT_TRUE(values.contains(name)) << name << " of part " << p;
    known.insert(weights.begin(), weights.end());
    for (const auto& node : model.graph().node()) {
      for (const auto& input : node.input())
        EXPECT_TRUE(known.contains(input)) << input << " is not made yet";
      for (const auto& output : node.output()) known.insert(output);
      if (node.op_type() != "Constant" && node.op_type() != "ConstantOfShape") ++nodes[node.name()];
    }
    for (const auto& output : model.graph().output()) {
      EXPECT_NE(output.type().tensor_type().elem_type(), 0) << output.name();
      values.insert(output.name());
    }
    for (const json& earlier : listed["after"]) EXPECT_LT(earlier.get<std::size_t>(), p);
  }
  for (const json& name : manifest_["outputs"]) EXPECT_TRUE(values.contains(name.get<std::string>()));
  std::size_t computing = 0;
  for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) computing += graph_.is_state(OpId{i}) ? 0 : 1;
  EXPECT_EQ(nodes.size(), computing);
  for (const auto& [name, count] : nodes) EXPECT_EQ(count, 1) << name;
}

TEST_F(Submodels, WeightsGoWithTheirReaderInTheEffectivePlacement) {
  const auto made =
      cut(content_of(two_sums()), [](std::string_view name) { return name == "second" ? 1 : 0; });
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(made->parts, 2u);
  EXPECT_THAT(weights_of(part(0)), ElementsAre("w"));
  EXPECT_THAT(weights_of(part(1)), ElementsAre("v"));
  EXPECT_EQ(part(1).graph().initializer(0).raw_data(), std::string(16, 'v'));
  EXPECT_EQ(made->moved_ops, 1u) << "v is read on gpu:0 only";
  EXPECT_EQ(manifest_["parts"][1]["device"], "gpu:0");
  EXPECT_EQ(manifest_["parts"][1]["after"], json::parse("[0]"));
}

TEST_F(Submodels, OlderFilesKeepWeightsAsInputs) {
  onnx::ModelProto model = two_sums(3);
  for (const char* weight : {"w", "v"}) add_value(*model.mutable_graph()->add_input(), weight);
  ASSERT_TRUE(cut(content_of(model), [](std::string_view name) { return name == "second" ? 1 : 0; }).ok());
  EXPECT_THAT(inputs_of(part(0)), ElementsAre("x", "w"));
  EXPECT_THAT(inputs_of(part(1)), ElementsAre("a", "v"));
  EXPECT_EQ(manifest_["parts"][1]["inputs"], json::parse(R"(["a"])")) << "a weight is not to be fed";
  EXPECT_EQ(manifest_["inputs"], json::parse(R"(["x"])"));
}

TEST_F(Submodels, OuterValuesOfABodyAreInputsOfItsPart) {
  onnx::ModelProto model = made_model();
  onnx::GraphProto& graph = *model.mutable_graph();
  add_value(*graph.add_input(), "x");
  auto& flag = *graph.add_input();
  add_value(flag, "flag", {1});
  flag.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::BOOL);
  add_value(*graph.add_output(), "y");
  add_weight(graph, "w");
  add_node(graph, "Relu", "first", {"x"}, {"a"});
  add_node(graph, "If", "choice", {"flag"}, {"y"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto& attribute = *graph.mutable_node(1)->add_attribute();
    attribute.set_name(branch);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    onnx::GraphProto& body = *attribute.mutable_g();
    body.set_name(branch);
    const std::string result = std::string{branch} + "_y";
    add_node(body, "Add", branch, {"a", "w"}, {result});
    add_value(*body.add_output(), result);
  }
  const auto made = cut(content_of(model), [](std::string_view name) { return name == "choice" ? 1 : 0; });
  ASSERT_TRUE(made.ok()) << made.error().context;
  ASSERT_EQ(made->parts, 2u);
  EXPECT_THAT(inputs_of(part(1)), UnorderedElementsAre("a", "flag"));
  EXPECT_THAT(weights_of(part(1)), ElementsAre("w"));
  EXPECT_EQ(part(1).graph().node(0).attribute_size(), 2);
}

TEST_F(Submodels, ConstantsAreInEveryPartThatReadsThem) {
  onnx::ModelProto model = made_model();
  onnx::GraphProto& graph = *model.mutable_graph();
  add_value(*graph.add_input(), "x");
  for (const char* output : {"y", "c", "w", "x"}) add_value(*graph.add_output(), output);
  add_weight(graph, "w");
  add_node(graph, "Constant", "constant", {}, {"c"});
  auto& value = *graph.mutable_node(0)->add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  value.mutable_t()->add_dims(4);
  value.mutable_t()->set_raw_data(std::string(16, 'c'));
  add_node(graph, "Add", "first", {"x", "c"}, {"a"});
  add_node(graph, "Add", "second", {"a", "c"}, {"y"});
  const auto made = cut(content_of(model), [](std::string_view name) { return name == "second" ? 1 : 0; });
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(part(0).graph().node_size(), 2);
  EXPECT_EQ(part(1).graph().node_size(), 2);
  // Outputs that the model does not compute come from the first part, or, if they are inputs, from the
  // caller.
  EXPECT_THAT(manifest_["parts"][0]["outputs"].get<std::vector<std::string>>(),
              UnorderedElementsAre("a", "c", "w"));
  EXPECT_THAT(manifest_["parts"][1]["outputs"].get<std::vector<std::string>>(), ElementsAre("y"));
  EXPECT_THAT(weights_of(part(0)), ElementsAre("w"));
}

class ExternalSubmodels : public Submodels {
 protected:
  /// two_sums() with its weights in `weights.data`: v at byte 64, w at byte 128.
  static onnx::ModelProto outside(const std::string& location = "weights.data") {
    onnx::ModelProto model = two_sums();
    for (auto& tensor : *model.mutable_graph()->mutable_initializer()) {
      tensor.clear_raw_data();
      tensor.set_data_location(onnx::TensorProto::EXTERNAL);
      for (const auto& [key, value] : {std::pair<std::string, std::string>{"location", location},
                                       {"offset", tensor.name() == "v" ? "64" : "128"},
                                       {"length", "16"}}) {
        auto& entry = *tensor.add_external_data();
        entry.set_key(key);
        entry.set_value(value);
      }
    }
    return model;
  }
  static int device_of(std::string_view name) { return name == "second" ? 1 : 0; }
  void write_data(std::size_t bytes = 144) const {
    std::string data(bytes, '.');
    for (std::size_t k = 0; k < 16 && 128 + k < bytes; ++k) data[64 + k] = 'v', data[128 + k] = 'w';
    std::ofstream{folder_ / "weights.data", std::ios::binary} << data;
  }
};

TEST_F(ExternalSubmodels, EachPartHasAFileWithOnlyItsData) {
  write_data();
  const auto made = cut(content_of(outside()), device_of);
  ASSERT_TRUE(made.ok()) << made.error().context;
  for (const auto& [number, letter] : {std::pair{0u, 'w'}, {1u, 'v'}}) {
    const auto name = manifest_["parts"][number]["data"].get<std::string>();
    std::map<std::string, std::string> entries;
    const onnx::ModelProto model = part(number);
    for (const auto& entry : model.graph().initializer(0).external_data())
      entries[entry.key()] = entry.value();
    EXPECT_EQ(entries["location"], name);
    EXPECT_EQ(entries["offset"], "0");
    EXPECT_EQ(entries["length"], "16");
    EXPECT_EQ(text_of(read_file(parts() / name).value()), std::string(16, letter));
  }
}

TEST_F(ExternalSubmodels, MissingShortOrOutsideDataIsRefused) {
  const auto refusal = [&] {
    const auto made = cut(content_of(outside()), device_of);
    EXPECT_FALSE(made.ok());
    return made.ok() ? std::string{} : made.error().context;
  };
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'w'"), HasSubstr("'weights.data', which cannot be read"),
                               HasSubstr("beside the model")));
  write_data(100);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'w'"), HasSubstr("needs more data")));
  EXPECT_FALSE(fs::exists(parts() / "manifest.json"));
}

TEST_F(Submodels, ReplacesAnEarlierExportAndKeepsOtherFiles) {
  const Bytes file = content_of(two_sums());
  ASSERT_TRUE(cut(file, [](std::string_view name) { return name == "second" ? 1 : 0; }).ok());
  EXPECT_TRUE(fs::exists(parts() / "part-001.onnx"));
  ASSERT_TRUE(cut(file, [](std::string_view) { return 2; }).ok());
  EXPECT_FALSE(fs::exists(parts() / "part-001.onnx"));
  EXPECT_EQ(manifest_["parts"].size(), 1u);
  fs::remove(parts() / "manifest.json");
  const auto refused = cut(file, [](std::string_view) { return 2; });
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().context, HasSubstr("is a folder with other files"));
  EXPECT_TRUE(fs::exists(parts() / "part-000.onnx"));
}

TEST_F(Submodels, ValueOfUnknownTypeCannotCrossDevices) {
  onnx::ModelProto model = made_model();
  onnx::GraphProto& graph = *model.mutable_graph();
  add_value(*graph.add_input(), "x");
  add_value(*graph.add_output(), "y");
  add_node(graph, "SequenceConstruct", "pack", {"x", "x"}, {"both"});
  auto& at = *graph.add_initializer();
  at.set_name("at");
  at.set_data_type(onnx::TensorProto::INT64);
  at.add_int64_data(1);
  add_node(graph, "SequenceAt", "pick", {"both", "at"}, {"y"});
  const Bytes file = content_of(model);
  EXPECT_TRUE(cut(file, [](std::string_view) { return 1; }).ok());
  const auto refused = cut(file, [](std::string_view name) { return name == "pick" ? 1 : 0; });
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().context,
              AllOf(HasSubstr("--to submodels"), HasSubstr("'both'"), HasSubstr("its type is unknown")));
}

TEST_F(Submodels, SizeDependentShapesStayOpen) {
  onnx::ModelProto model = two_sums();
  auto& shape =
      *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_param("n");
  model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  const Bytes file = content_of(model);
  ReadOptions sized;
  sized.dims.named["n"] = 4;
  graph_ = parse_graph(file, "made", sized).value();
  Placement placement(graph_.num_ops(), DeviceId{0});
  placement.back() = DeviceId{1};
  const std::string output = parts().string();
  const auto made = export_placement("submodels", {.graph = graph_,
                                                   .devices = devices_,
                                                   .placement = placement,
                                                   .graph_file = file,
                                                   .output = output,
                                                   .graph_folder = folder_,
                                                   .dims = sized.dims});
  ASSERT_TRUE(made.ok()) << made.error().context;
  manifest_ = json::parse(made->content);
  const onnx::ModelProto second = part(1);
  const auto& crossing = second.graph().input(0).type().tensor_type();
  EXPECT_EQ(crossing.elem_type(), onnx::TensorProto::FLOAT);
  ASSERT_EQ(crossing.shape().dim_size(), 1);
  EXPECT_EQ(crossing.shape().dim(0).dim_param(), "a.0");
}

}  // namespace
}  // namespace emplace::interop

// Goal: a TensorFlow GraphDef becomes one step of what it computes, with loops, savers and gradients
// distinguished, and graphs that cannot be placed are refused in one line. Method: a published training
// graph, and graphs in protobuf's text form made by the test.
#include "graph/formats/tensorflow/tf_graphdef.h"

#include <gmock/gmock.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <tf_graphdef.pb.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/rng.h"
#include "graph/formats/graph_file.h"
#include "graph/formats/tensorflow/tf_shapes.h"
#include "tests/graph/graph_text.h"

namespace emplace {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path kImpala =
    std::filesystem::path{EMPLACE_FIXTURES} / "third_party/tf-graphdef/impala_learner.pbtxt.gz";

Result<OpGraph> read_graphdef(std::string_view text, std::string_view where = "g.pbtxt") {
  return read_text(where, text);
}

std::string graphdef_error(std::string_view text) { return refusal_of("g.pbtxt", text); }

/// A node in text form. `shapes` are those of its outputs: "8,4" or "" for a scalar.
struct Node {
  std::string name, op;
  std::vector<std::string> inputs = {};
  std::vector<std::string> shapes = {};
  std::string more = {};
};
std::string shape_text(std::string_view dims) {
  std::string text = "shape {";
  for (std::size_t at = 0; at < dims.size();) {
    const std::size_t end = std::min(dims.find(',', at), dims.size());
    text += " dim { size: " + std::string{dims.substr(at, end - at)} + " }";
    at = end + 1;
  }
  return text + " }";
}
std::string text_of(const std::vector<Node>& nodes) {
  std::string text;
  for (const Node& node : nodes) {
    text += "node { name: \"" + node.name + "\" op: \"" + node.op + "\"";
    for (const auto& input : node.inputs) text += " input: \"" + input + "\"";
    std::string shapes;
    for (const auto& shape_of_op : node.shapes) shapes += " " + shape_text(shape_of_op);
    if (!node.shapes.empty()) text += " attr { key: \"_output_shapes\" value { list {" + shapes + " } } }";
    if (node.op == "VariableV2")
      text += " attr { key: \"shape\" value { " + shape_text(node.shapes[0]) + " } }";
    text += node.more + " }\n";
  }
  return text;
}
OpGraph graph_of(const std::vector<Node>& nodes) {
  auto graph = read_graphdef(text_of(nodes));
  EXPECT_TRUE(graph.ok()) << graph.error().context;
  return std::move(graph).value();
}

/// Bytes of what an op reads, in order.
std::vector<std::int64_t> read_bytes(const OpGraph& graph, std::string_view name) {
  std::vector<std::int64_t> bytes;
  for (const TensorId tensor : graph.inputs(op_named(graph, name))) bytes.push_back(graph.bytes(tensor));
  return bytes;
}
json attrs(const OpGraph& graph, std::string_view name) {
  return json::parse(graph.attrs_json(op_named(graph, name)));
}
/// The op that determines its device; itself if it is free.
OpId leader_of(const OpGraph& graph, std::string_view name) {
  OpId op = op_named(graph, name);
  while (graph.colocated_with(op) != kNoOp) op = graph.colocated_with(op);
  return op;
}

/// The parser would warn about every field that our subset lacks.
class IgnoredErrors final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, int, const std::string&) override {}
};

class ImpalaGraphdef : public ::testing::Test {
 protected:
  const OpGraph graph_ = load_graph(kImpala).value();
};

TEST_F(ImpalaGraphdef, HasOneOpPerNodeAndTheTypesOfATrainingGraph) {
  EXPECT_EQ(graph_.num_ops(), 2124u);
  EXPECT_EQ(graph_.name(), "impala_learner");
  std::map<std::string, int> types;
  std::map<Phase, int> phases;
  std::int64_t weights = 0, slots = 0;
  for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
    const OpId op{i};
    ++types[std::string{graph_.type_name(op)}];
    ++phases[graph_.phase(op)];
    if (graph_.type_name(op) == "Parameter") weights += graph_.param_bytes(op);
    if (graph_.type_name(op) == "OptimizerState") slots += graph_.param_bytes(op);
  }
  EXPECT_EQ(types["MatMul"], 51);
  EXPECT_EQ(types["Conv2DBackpropFilter"], 3);
  EXPECT_EQ(types["ApplyRMSProp"], 14);
  EXPECT_EQ(types["Parameter"], 14);       // The optimiser trains these.
  EXPECT_EQ(types["OptimizerState"], 28);  // There are two slots for each.
  EXPECT_EQ(slots, 2 * weights);
  EXPECT_EQ(types["VariableV2"], 0);  // The counter of frames is a Buffer.
  EXPECT_GT(phases[Phase::kBackward], 400);
  EXPECT_GE(phases[Phase::kUpdate], 14 + 28);
}

TEST_F(ImpalaGraphdef, LoopsAreCutAndEachStaysOnOneDevice) {
  const json meta = json::parse(graph_.meta_json());
  EXPECT_EQ(meta["back_edges_cut"], 6);
  ASSERT_EQ(meta["loops"].size(), 2u);
  EXPECT_EQ(meta["kind"], "training");
  std::map<std::string, OpId> loops;
  std::size_t inside = 0;
  for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
    const json own = json::parse(graph_.attrs_json(OpId{i}));
    if (!own.contains("loop")) continue;
    ++inside;
    const auto [it, fresh] = loops.try_emplace(own["loop"], leader_of(graph_, graph_.name(OpId{i})));
    EXPECT_EQ(it->second, leader_of(graph_, graph_.name(OpId{i}))) << graph_.name(OpId{i});
  }
  EXPECT_EQ(loops.size(), 2u);
  EXPECT_EQ(inside, meta["loops"][0]["ops"].get<std::size_t>() + meta["loops"][1]["ops"].get<std::size_t>());
  const std::string scan = "vtrace_from_logits/vtrace_from_importance_weights/scan/while/";
  EXPECT_EQ(graph_.inputs(op_named(graph_, scan + "Merge")).size(), 1u);
  EXPECT_TRUE(attrs(graph_, scan + "TensorArrayReadV3").contains("loop"));
  EXPECT_FALSE(attrs(graph_, "agent/batch_apply/linear/w").contains("loop"));
  EXPECT_THAT(graph_notes(graph_), ::testing::Contains(HasSubstr("while loops: 2")));
}

TEST_F(ImpalaGraphdef, SaversAndInitialisersTakeNoTimeAndMoveNothing) {
  std::size_t one_offs = 0;
  for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
    const OpId op{i};
    const json own = json::parse(graph_.attrs_json(op));
    if (!own.value("one_off", false)) continue;
    ++one_offs;
    EXPECT_TRUE(graph_.is_view(op) || graph_.is_state(op)) << graph_.name(op);
    EXPECT_EQ(graph_.flops(op), 0);
    for (const TensorId tensor : graph_.inputs(op)) EXPECT_EQ(graph_.bytes(tensor), 0) << graph_.name(op);
    for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) EXPECT_EQ(graph_.bytes(graph_.output(op, k)), 0);
    EXPECT_FALSE(graph_.type_name(op).starts_with("Apply"));
  }
  EXPECT_EQ(one_offs, 363u);  // Another program counted these by the rule of the header.
  EXPECT_TRUE(attrs(graph_, "save/RestoreV2").value("one_off", false));
  EXPECT_TRUE(attrs(graph_, "agent/lstm_cell/kernel/Initializer/random_uniform/RandomUniform")
                  .value("one_off", false));
}

TEST_F(ImpalaGraphdef, VariablesStayWithTheirUpdatesAndDevicesAreKept) {
  std::size_t updates = 0;
  for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
    if (graph_.type_name(OpId{i}) != "ApplyRMSProp") continue;
    ++updates;
    const auto inputs = graph_.inputs(OpId{i});
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_EQ(leader_of(graph_, graph_.name(graph_.producer(inputs[k]))),
                leader_of(graph_, graph_.name(OpId{i})));
  }
  EXPECT_EQ(updates, 14u);
  EXPECT_EQ(attrs(graph_, "fifo_queue")["device"], "/job:learner/task:0/device:CPU:*");
}

TEST_F(ImpalaGraphdef, BinaryFormGivesTheSameGraph) {
  auto text = read_graph_file(kImpala);
  ASSERT_TRUE(text.ok());
  tf::GraphDef proto;
  google::protobuf::TextFormat::Parser parser;
  IgnoredErrors ignored;
  parser.RecordErrorsTo(&ignored);
  parser.AllowUnknownField(true);
  ASSERT_TRUE(parser.ParseFromString({reinterpret_cast<const char*>(text->data()), text->size()}, &proto));
  const std::string binary = proto.SerializeAsString();
  const auto bytes = std::as_bytes(std::span{binary.data(), binary.size()});
  EXPECT_EQ(recognise_format(bytes, "unnamed"), GraphFormat::kTfGraphdef);
  EXPECT_EQ(graph_sha256(read_graphdef(binary, "saved").value()), graph_sha256(graph_));
}

TEST(TfGraphdef, ControlInputsAreDependenciesWithoutBytes) {
  const OpGraph graph = graph_of({{"x", "Placeholder", {}, {"8,4"}},
                                  {"a", "Relu", {"x"}, {"8,4"}},
                                  {"b", "Tanh", {"x", "^a", "^a"}, {"8,4"}},
                                  {"group", "NoOp", {"^a", "^b"}}});
  EXPECT_THAT(read_bytes(graph, "b"), ElementsAre(128, 0));
  EXPECT_THAT(read_bytes(graph, "group"), ElementsAre(0, 0));
  EXPECT_TRUE(graph.is_view(op_named(graph, "group")));
  EXPECT_EQ(graph.type_name(op_named(graph, "x")), "Input");
  EXPECT_EQ(graph.flops(op_named(graph, "b")), 5 * 32);
}

TEST(TfGraphdef, ColocationGroupsNeedNoNodeOfTheirName) {
  const auto loc = [](const char* name) {
    return " attr { key: \"_class\" value { list { s: \"loc:@" + std::string{name} + "\" } } }";
  };
  const OpGraph graph = graph_of({{"x", "Placeholder", {}, {"4"}},
                                  {"a", "Relu", {"x"}, {"4"}, loc("d")},
                                  {"b", "Relu", {"x"}, {"4"}, loc("gone")},
                                  {"c", "Relu", {"x"}, {"4"}, loc("gone")},
                                  {"d", "Relu", {"x"}, {"4"}}});
  EXPECT_EQ(leader_of(graph, "a"), leader_of(graph, "d"));
  EXPECT_EQ(leader_of(graph, "b"), leader_of(graph, "c"));
  EXPECT_NE(leader_of(graph, "a"), leader_of(graph, "b"));
  EXPECT_EQ(leader_of(graph, "x"), op_named(graph, "x"));
}

TEST(TfGraphdef, GradientsHaveTheScopeOfTheirForwardOpsAndLaterOpsTheirPhase) {
  const OpGraph graph = graph_of(
      {{"x", "Placeholder", {}, {"4"}},
       {"w", "VariableV2", {}, {"4"}},
       {"tower/dense/Mul", "Mul", {"x", "w"}, {"4"}},
       {"gradients/tower/dense/Mul_grad/Mul_1", "Mul", {"x", "tower/dense/Mul"}, {"4"}},
       {"clip/Minimum", "Minimum", {"gradients/tower/dense/Mul_grad/Mul_1", "x"}, {"4"}},
       {"rate", "Const", {}, {""}},
       {"w/Momentum", "VariableV2", {}, {"4"}},
       {"train/update_w", "ApplyMomentum", {"w", "w/Momentum", "rate", "clip/Minimum", "rate"}, {"4"}},
       {"train", "NoOp", {"^train/update_w"}},
       {"moving_mean", "VariableV2", {}, {"4"}}});
  EXPECT_EQ(graph.group_name(op_named(graph, "gradients/tower/dense/Mul_grad/Mul_1")), "tower/dense");
  EXPECT_EQ(graph.group_name(op_named(graph, "tower/dense/Mul")), "tower/dense");
  EXPECT_EQ(graph.phase(op_named(graph, "tower/dense/Mul")), Phase::kForward);
  EXPECT_EQ(graph.phase(op_named(graph, "clip/Minimum")), Phase::kBackward);
  EXPECT_EQ(graph.phase(op_named(graph, "train/update_w")), Phase::kUpdate);
  EXPECT_EQ(graph.phase(op_named(graph, "train")), Phase::kUpdate);
  EXPECT_EQ(graph.type_name(op_named(graph, "w")), "Parameter");
  EXPECT_EQ(graph.type_name(op_named(graph, "w/Momentum")), "OptimizerState");
  EXPECT_EQ(graph.type_name(op_named(graph, "moving_mean")), "Buffer");
  EXPECT_EQ(graph.type_name(op_named(graph, "rate")), "Constant");
  EXPECT_EQ(graph.param_bytes(op_named(graph, "w/Momentum")), 16);
  EXPECT_EQ(leader_of(graph, "w/Momentum"), leader_of(graph, "w"));
  EXPECT_EQ(leader_of(graph, "train/update_w"), leader_of(graph, "w"));
}

TEST(TfGraphdef, OpsStayWithTheirResources) {
  const std::string variable =
      " attr { key: \"dtype\" value { type: DT_HALF } } attr { key: \"shape\" value { " + shape_text("16") +
      " } }";
  const std::string half = " attr { key: \"dtype\" value { type: DT_HALF } }";
  const OpGraph graph =
      graph_of({{"v", "VarHandleOp", {}, {""}, variable},
                {"read", "ReadVariableOp", {"v"}, {"16"}, half},
                {"use", "Relu", {"read"}, {"16"}, " attr { key: \"T\" value { type: DT_HALF } }"},
                {"stack", "StackV2", {"use:0"}, {""}},
                {"push", "StackPushV2", {"stack", "use"}, {"16"}}});
  EXPECT_EQ(graph.type_name(op_named(graph, "v")), "Parameter");
  EXPECT_EQ(graph.param_bytes(op_named(graph, "v")), 32);
  EXPECT_TRUE(graph.is_view(op_named(graph, "read")));
  EXPECT_THAT(read_bytes(graph, "use"), ElementsAre(32));
  EXPECT_EQ(leader_of(graph, "read"), leader_of(graph, "v"));
  EXPECT_EQ(leader_of(graph, "use"), op_named(graph, "use"));
  EXPECT_EQ(leader_of(graph, "push"), leader_of(graph, "stack"));
  EXPECT_THAT(read_bytes(graph, "push"), ElementsAre(0, 32));  // A handle is no data.
}

TEST(TfGraphdef, WorkFollowsTheFormulasOfTheTracedGraphs) {
  const auto flag = [](const char* name) {
    return " attr { key: \"" + std::string{name} + "\" value { b: true } }";
  };
  const OpGraph graph =
      graph_of({{"image", "Placeholder", {}, {"2,8,8,3"}},
                {"filter", "VariableV2", {}, {"3,3,3,16"}},
                {"a", "Placeholder", {}, {"5,7"}},
                {"b", "Placeholder", {}, {"5,4"}},
                {"sizes", "Const", {}, {"4"}},
                {"conv", "Conv2D", {"image", "filter"}, {"2,8,8,16"}},
                {"conv_image", "Conv2DBackpropInput", {"sizes", "filter", "conv"}, {"2,8,8,3"}},
                {"conv_filter", "Conv2DBackpropFilter", {"image", "sizes", "conv"}, {"3,3,3,16"}},
                {"mm", "MatMul", {"a", "b"}, {"7,4"}, flag("transpose_a")},
                {"sum", "Sum", {"conv", "sizes"}, {""}}});
  const std::int64_t conv = 2LL * (2 * 8 * 8 * 16) * (3 * 3 * 3);
  for (const char* name : {"conv", "conv_image", "conv_filter"})
    EXPECT_EQ(graph.flops(op_named(graph, name)), conv) << name;
  EXPECT_EQ(graph.flops(op_named(graph, "mm")), 2 * 7 * 4 * 5);
  EXPECT_EQ(graph.flops(op_named(graph, "sum")), 2 * 8 * 8 * 16);
}

TEST(TfGraphdef, NestedLoopsBelongToTheOuterOne) {
  const auto frame = [](const char* name) {
    return " attr { key: \"frame_name\" value { s: \"" + std::string{name} + "\" } }";
  };
  const OpGraph graph = graph_of({{"x", "Placeholder", {}, {"4"}},
                                  {"o/Enter", "Enter", {"x"}, {"4"}, frame("outer")},
                                  {"o/Merge", "Merge", {"o/Enter", "o/Next"}, {"4", ""}},
                                  {"i/Enter", "Enter", {"o/Merge"}, {"4"}, frame("inner")},
                                  {"i/Merge", "Merge", {"i/Enter", "i/Next"}, {"4", ""}},
                                  {"i/Body", "Relu", {"i/Merge"}, {"4"}},
                                  {"i/Next", "NextIteration", {"i/Body"}, {"4"}},
                                  {"i/Exit", "Exit", {"i/Merge"}, {"4"}},
                                  {"o/Body", "Tanh", {"i/Exit"}, {"4"}},
                                  {"o/Next", "NextIteration", {"o/Body"}, {"4"}},
                                  {"o/Exit", "Exit", {"o/Merge"}, {"4"}},
                                  {"y", "Relu", {"o/Exit"}, {"4"}}});
  for (const char* name : {"o/Merge", "i/Enter", "i/Body", "i/Exit", "o/Body", "o/Exit"}) {
    EXPECT_EQ(leader_of(graph, name), op_named(graph, "o/Enter")) << name;
    EXPECT_EQ(attrs(graph, name)["loop"], "outer") << name;
  }
  EXPECT_EQ(leader_of(graph, "y"), op_named(graph, "y"));
  const json meta = json::parse(graph.meta_json());
  EXPECT_EQ(meta["back_edges_cut"], 2);
  EXPECT_EQ(meta["loops"], json::parse(R"([{"frame":"outer","ops":10}])"));
}

TEST(TfGraphdef, ManyDiamondsOfViewsStaySmall) {
  std::vector<Node> nodes{{"x", "Placeholder", {}, {"4"}}, {"n0", "Relu", {"x"}, {"4"}}};
  for (int i = 1; i <= 64; ++i) {  // Each doubles the dependencies of the one before it.
    const std::string last = "n" + std::to_string(i - 1), here = std::to_string(i);
    nodes.push_back({"a" + here, "NoOp", {"^" + last}});
    nodes.push_back({"b" + here, "NoOp", {"^" + last}});
    nodes.push_back({"n" + here, "NoOp", {"^a" + here, "^b" + here}});
  }
  const OpGraph graph = graph_of(nodes);
  std::vector<double> waits(graph.num_ops(), 0);  // Dependencies as the simulator copies them.
  for (const OpId op : graph.topological_order()) {
    if (!graph.is_view(op)) continue;
    for (const TensorId input : graph.inputs(op)) waits[index(op)] += 1 + waits[index(graph.producer(input))];
    EXPECT_LE(waits[index(op)], 1'000) << graph.name(op);
  }
  EXPECT_TRUE(graph.is_view(op_named(graph, "n1")));
}

TEST(TfGraphdef, ConstantsOfAFrozenGraphAreItsWeights) {
  const std::string weight =
      " attr { key: \"dtype\" value { type: DT_FLOAT } } attr { key: \"value\" value { tensor { dtype: "
      "DT_FLOAT tensor_shape { dim { size: 10 } dim { size: 20 } } tensor_content: \"abc\" } } }";
  const OpGraph graph = graph_of({{"x", "Placeholder", {}, {"-1,10"}},
                                  {"w", "Const", {}, {}, weight},
                                  {"y", "MatMul", {"x", "w"}, {"-1,20"}}});
  EXPECT_EQ(graph.type_name(op_named(graph, "w")), "Parameter");
  EXPECT_EQ(graph.param_bytes(op_named(graph, "w")), 800);
  EXPECT_THAT(graph_notes(graph), ElementsAre(AllOf(HasSubstr("unknown dimensions: 1"),
                                                    HasSubstr("--batch N or --shape x.0=…"))));
}

std::string whole_numbers(const std::vector<int>& values, bool scalar = false) {
  std::string text =
      " attr { key: \"dtype\" value { type: DT_INT32 } } attr { key: \"value\" value { tensor { dtype: "
      "DT_INT32 "
      "tensor_shape {" +
      (scalar ? std::string{} : " dim { size: " + std::to_string(values.size()) + " }") + " }";
  for (const int value : values) text += " int_val: " + std::to_string(value);
  return text + " } } }";
}
std::string whole_list(const char* key, const std::vector<int>& values) {
  std::string text = " attr { key: \"" + std::string{key} + "\" value { list {";
  for (const int value : values) text += " i: " + std::to_string(value);
  return text + " } } }";
}
std::string word(const char* key, const char* value) {
  return " attr { key: \"" + std::string{key} + "\" value { s: \"" + value + "\" } }";
}
std::vector<std::int64_t> shape_of_op(const OpGraph& graph, std::string_view name, std::size_t output = 0) {
  const auto dims = graph.shape(graph.output(op_named(graph, name), output));
  return {dims.begin(), dims.end()};
}

TEST(TfGraphdef, ShapesOfVolumesFollowFromTheirInputs) {
  const auto with = [](const std::string& shape) {
    return " attr { key: \"shape\" value { " + shape_text(shape) + " } }";
  };
  const std::string strides = whole_list("strides", {1, 2, 2, 1, 1}) + word("padding", "SAME");
  const std::string first = whole_list("strides", {1, 1, 2, 2, 2}) + whole_list("ksize", {1, 1, 3, 2, 1}) +
                            word("padding", "VALID") + word("data_format", "NCDHW");
  const OpGraph graph = graph_of({{"x", "Placeholder", {}, {}, with("2,8,6,4,3")},
                                  {"filter", "Placeholder", {}, {}, with("3,3,3,3,16")},
                                  {"conv", "Conv3D", {"x", "filter"}, {}, strides},
                                  {"relu", "Relu", {"conv"}},
                                  {"pool", "MaxPool3D", {"x"}, {}, first},
                                  {"end", "Relu", {"pool"}}});
  EXPECT_THAT(graph.shape(graph.output(op_named(graph, "relu"), 0)), ElementsAre(2, 4, 3, 4, 16));
  EXPECT_EQ(graph.flops(op_named(graph, "conv")), 2 * (2 * 4 * 3 * 4 * 16) * 3 * 27);
  EXPECT_THAT(graph.shape(graph.output(op_named(graph, "end"), 0)), ElementsAre(2, 8, 2, 2, 2));
}

TEST(TfGraphdef, ShapesOfAFrozenGraphFollowFromItsInputs) {
  const std::string input = " attr { key: \"shape\" value { " + shape_text("-1,9,9,3") + " } }";
  const auto tensor = [&](const std::string& dims) {
    return " attr { key: \"dtype\" value { type: DT_FLOAT } } attr { key: \"value\" value { tensor { dtype: "
           "DT_FLOAT tensor_" +
           shape_text(dims) + " } } }";
  };
  const OpGraph graph = graph_of(
      {{"x", "Placeholder", {}, {}, input},
       {"filter", "Const", {}, {}, tensor("3,3,3,16")},
       {"conv", "Conv2D", {"x", "filter"}, {}, whole_list("strides", {1, 2, 2, 1}) + word("padding", "SAME")},
       {"scale", "Const", {}, {}, tensor("16")},
       {"norm", "FusedBatchNormV3", {"conv", "scale", "scale", "scale", "scale"}},
       {"relu", "Relu6", {"norm"}},
       {"deep", "Const", {}, {}, tensor("2,2,16,2")},
       {"depthwise",
        "DepthwiseConv2dNative",
        {"relu", "deep"},
        {},
        whole_list("strides", {1, 1, 1, 1}) + word("padding", "VALID")},
       {"pool",
        "MaxPool",
        {"depthwise"},
        {},
        whole_list("ksize", {1, 2, 2, 1}) + whole_list("strides", {1, 2, 2, 1}) + word("padding", "VALID")},
       {"axis", "Const", {}, {}, whole_numbers({3}, true)},
       {"concat", "ConcatV2", {"pool", "pool", "axis"}},
       {"shape", "Shape", {"concat"}},
       {"zero", "Const", {}, {}, whole_numbers({0})},
       {"one", "Const", {}, {}, whole_numbers({1})},
       {"batch",
        "StridedSlice",
        {"shape", "zero", "one", "one"},
        {},
        " attr { key: \"shrink_axis_mask\" value { i: 1 } }"},
       {"rest", "Const", {}, {}, whole_numbers({-1}, true)},
       {"pack", "Pack", {"batch", "rest"}},
       {"flat", "Reshape", {"concat", "pack"}},
       {"w", "Const", {}, {}, tensor("256,10")},
       {"logits", "MatMul", {"flat", "w"}},
       {"axes", "Const", {}, {}, whole_numbers({1, 2})},
       {"mean", "Mean", {"pool", "axes"}, {}, " attr { key: \"keep_dims\" value { b: true } }"},
       {"squeeze", "Squeeze", {"mean"}},
       {"y", "Softmax", {"logits"}}});
  EXPECT_THAT(shape_of_op(graph, "conv"), ElementsAre(1, 5, 5, 16));
  EXPECT_THAT(shape_of_op(graph, "norm", 1), ElementsAre(16));
  EXPECT_THAT(shape_of_op(graph, "depthwise"), ElementsAre(1, 4, 4, 32));
  EXPECT_THAT(shape_of_op(graph, "pool"), ElementsAre(1, 2, 2, 32));
  EXPECT_THAT(shape_of_op(graph, "concat"), ElementsAre(1, 2, 2, 64));
  EXPECT_THAT(shape_of_op(graph, "flat"), ElementsAre(1, 256));
  EXPECT_THAT(shape_of_op(graph, "y"), ElementsAre(1, 10));
  EXPECT_THAT(shape_of_op(graph, "mean"), ElementsAre(1, 1, 1, 32));
  EXPECT_THAT(shape_of_op(graph, "squeeze"), ElementsAre(32));
  EXPECT_EQ(graph.flops(op_named(graph, "logits")), 2 * 256 * 10);
  EXPECT_EQ(json::parse(graph.meta_json())["inferred_shapes"], 14);
}

TEST(TfGraphdef, InfersNoShapeFromContradictions) {
  const Node x{"x", "Placeholder", {}, {"4,6"}}, last{"z", "Relu", {"y"}};
  const auto no_shape = [&](Node node, const std::string& more) {
    Node constant{"c", "Const", {}, {}, more};
    EXPECT_THAT(graphdef_error(text_of({x, constant, node, last})),
                AllOf(HasSubstr("'y': has no shape"), HasSubstr("(" + node.op + ")")));
  };
  no_shape({"y", "Reshape", {"x", "c"}}, whole_numbers({5, -1}));
  no_shape({"y", "Reshape", {"x", "c"}}, whole_numbers({-1, -1}));
  no_shape({"y", "MatMul", {"x", "x"}}, whole_numbers({1}));
  no_shape({"y", "Mean", {"x", "c"}}, whole_numbers({2}));
  no_shape({"y", "ConcatV2", {"x", "x", "c"}}, whole_numbers({7}, true));
  no_shape({"y", "Transpose", {"x", "c"}}, whole_numbers({0, 9}));
  no_shape({"y", "Pad", {"x", "c"}}, whole_numbers({-2'000'000, 0, 0, 0}));
  no_shape({"y", "Conv2D", {"x", "x"}}, whole_numbers({1}));
  no_shape({"y", "Add", {"x", "c"}}, whole_numbers({1, 2, 3, 4, 5}));
  no_shape({"y", "Conv2D", {"x"}}, whole_numbers({1}));
}

/// Every shape that the rules infer for a published graph equals the one that TensorFlow wrote.
TEST_F(ImpalaGraphdef, InferredShapesEqualThoseOfTheFile) {
  const auto text = read_graph_file(kImpala).value();
  tf::GraphDef proto;
  google::protobuf::TextFormat::Parser parser;
  IgnoredErrors ignored;
  parser.RecordErrorsTo(&ignored);
  parser.AllowUnknownField(true);
  ASSERT_TRUE(parser.ParseFromString({reinterpret_cast<const char*>(text.data()), text.size()}, &proto));
  std::map<std::string, const tf::NodeDef*> nodes;
  for (const auto& node : proto.node()) nodes[node.name()] = &node;
  const auto shape_of = [](const tf::NodeDef& node, std::size_t output) -> std::optional<Shape> {
    const tf::AttrValue* list = tf::find(node, "_output_shapes");
    if (list == nullptr || output >= static_cast<std::size_t>(list->list().shape_size())) return std::nullopt;
    Shape shape_of_op;
    if (list->list().shape(static_cast<int>(output)).unknown_rank()) return std::nullopt;
    for (const auto& dim : list->list().shape(static_cast<int>(output)).dim()) {
      if (dim.size() < 0) return std::nullopt;
      shape_of_op.push_back(dim.size());
    }
    return shape_of_op;
  };
  std::map<std::string, int> agreed;
  for (const auto& node : proto.node()) {
    std::vector<Shape> inputs;
    std::vector<tf::Value> values;
    bool known = true;
    for (const std::string& input : node.input()) {
      if (input.starts_with('^')) continue;
      const std::size_t colon = input.find(':');
      const tf::NodeDef& producer = *nodes.at(input.substr(0, colon));
      const auto shape_of_op =
          shape_of(producer, colon == std::string::npos ? 0 : std::stoul(input.substr(colon + 1)));
      known = known && shape_of_op.has_value();
      // The shape of a handle is that of its variable, which the file does not contain.
      known = known && tf::output_dtype(producer, 0).has_value();
      if (!known) break;
      inputs.push_back(*shape_of_op);
      values.push_back(tf::constant_value(producer));
    }
    if (!known || inputs.empty()) continue;
    const auto inferred = tf::infer_shapes(node, inputs, values);
    if (!inferred || !tf::output_dtype(node, 0)) continue;
    for (std::size_t k = 0; k < inferred->shapes.size(); ++k) {
      const auto declared = shape_of(node, k);
      if (!declared) continue;
      EXPECT_EQ(inferred->shapes[k], *declared) << node.name() << " (" << node.op() << ") output " << k;
      ++agreed[node.op()];
    }
  }
  int total = 0;
  for (const auto& [type, count] : agreed) total += count;
  EXPECT_GT(total, 700);
  EXPECT_GE(agreed.size(), 30u);
  for (const char* type : {"MatMul", "Conv2D", "MaxPool", "Reshape", "ConcatV2", "Sum", "Pack", "Unpack",
                           "Transpose", "BiasAdd"})
    EXPECT_GT(agreed[type], 0) << type;
}

TEST(TfGraphdef, RefusesUnplaceableGraphsInOneLine) {
  const Node x{"x", "Placeholder", {}, {"4"}};
  EXPECT_THAT(graphdef_error(text_of({x, {"a", "Relu", {"ghost"}, {"4"}}})),
              AllOf(HasSubstr("'a'"), HasSubstr("'ghost', which is not a node")));
  EXPECT_THAT(graphdef_error(text_of({x, {"a", "Relu", {"x:3"}, {"4"}}})),
              AllOf(HasSubstr("output 3 of 'x'"), HasSubstr("has 1")));
  EXPECT_THAT(graphdef_error(text_of({x, {"a", "Relu", {"x:y"}, {"4"}}})),
              HasSubstr("malformed input 'x:y'"));
  EXPECT_THAT(graphdef_error(text_of({x, {"a", "Relu", {"x:99999999999"}, {"4"}}})),
              HasSubstr("malformed input"));
  EXPECT_THAT(graphdef_error(text_of({x, x})), AllOf(HasSubstr("'x'"), HasSubstr("twice")));
  std::string attributes;
  for (int i = 0; i < 257; ++i) attributes += " attr { key: \"k" + std::to_string(i) + "\" value { i: 1 } }";
  EXPECT_THAT(graphdef_error(text_of({{"x", "Relu", {}, {"4"}, attributes}})),
              HasSubstr("more than 256 attributes"));
  EXPECT_THAT(graphdef_error(text_of({{"", "Relu"}})), HasSubstr("node number 0 has no name"));
  EXPECT_THAT(graphdef_error(text_of({{"a", ""}})), HasSubstr("has no type"));
  EXPECT_THAT(graphdef_error(text_of({x, {"a", "Frobnicate", {"x"}}, {"b", "Relu", {"a"}, {"4"}}})),
              AllOf(HasSubstr("'a'"), HasSubstr("no shape"), HasSubstr("add_shapes=True")));
  EXPECT_THAT(graphdef_error(text_of({x, {"a", "Add", {"x", "b"}, {"4"}}, {"b", "Relu", {"a"}, {"4"}}})),
              AllOf(HasSubstr("cycle of 2 ops"), HasSubstr("'a'"), HasSubstr("'b'")));
  EXPECT_THAT(graphdef_error(text_of({x, {"w", "StatelessWhile", {"x"}, {"4"}}})),
              AllOf(HasSubstr("'w'"), HasSubstr("has no functions (cond, body)")));
  EXPECT_THAT(graphdef_error(text_of({{"x", "Placeholder", {}, {"-5"}}})), HasSubstr("negative"));
  EXPECT_NE(graphdef_error(text_of({{"x", "Relu", {}, {"9000000000,9000000000"}}})), "accepted");
  EXPECT_NE(graphdef_error(text_of({{"x", "VariableV2", {}, {"4000000000,4000000000"}}})), "accepted");
  EXPECT_THAT(graphdef_error("node {\n  name: \"a\"\n  op: 7\n}\n"), HasSubstr("line 3, column"));
  EXPECT_THAT(graphdef_error("node { name: \"a\" op: \"\xff\" }"), HasSubstr("not UTF-8"));
  EXPECT_THAT(graphdef_error("versions { producer: 27 }"), HasSubstr("has no nodes"));
}

TEST(TfGraphdef, ReadsOrRefusesEveryTruncationInOneLine) {
  const std::string text = text_of({{"x", "Placeholder", {}, {"4"}}, {"a", "Relu", {"x", "^x"}, {"4"}}});
  tf::GraphDef proto;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
  const std::string binary = proto.SerializeAsString();
  for (const std::string* whole : {&text, &binary}) {
    for (std::size_t size = 1; size < whole->size(); ++size) {
      const auto graph = read_graphdef(whole->substr(0, size), "cut.pb");
      if (!graph) {
        EXPECT_EQ(graph.error().context.find('\n'), std::string::npos) << size;
        EXPECT_THAT(graph.error().context, ::testing::StartsWith("cut.pb: ")) << size;
      }
    }
  }
}

}  // namespace
}  // namespace emplace

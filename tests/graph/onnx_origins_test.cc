// Goal: weights that only an exporter merged, doubled or folded are separate again, or a note counts them.
// Method: small models in the forms of torch's two exporters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/formats/graph_file.h"
#include "graph/training/training_graph.h"
#include "tests/graph/onnx_model.h"

namespace emplace {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Adds what torch's exporter writes of a node: the module's scope, and the parameters of its op.
void describe(onnx::NodeProto& node, const std::string& scope, const std::string& parameters,
              const std::string& rule = "") {
  const auto add = [&](const std::string& key, const std::string& value) {
    auto& entry = *node.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  };
  add("pkg.torch.onnx.name_scopes", "['', '" + scope + "', 'op']");
  add("pkg.torch.onnx.fx_node",
      "%op : [num_users=1] = call_function[target=torch.ops.aten.op.default](args = (%x, " + parameters +
          ", 1e-05), kwargs = {})");
  if (!rule.empty()) add("pkg.onnxscript.rewriter.rule_name", rule);
}

void fill(onnx::TensorProto& tensor, std::vector<float> values) {
  tensor.set_raw_data(std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size()));
}

std::size_t parameters(const OpGraph& graph) {
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    count += graph.type_name(OpId{i}) == "Parameter" ? 1 : 0;
  return count;
}

Model merged_norms() {
  Model model;
  model.proto().mutable_opset_import(0)->set_version(17);
  fill(model.initializer("norms.0.weight", {8}), std::vector<float>(8, 1));
  fill(model.initializer("norms.0.bias", {8}), std::vector<float>(8, 0));
  return model;
}

TEST(OnnxOrigins, WeightsThatTheExporterMergedAreParametersOfTheirModules) {
  Model model = merged_norms();
  for (int k = 0; k < 3; ++k) {
    const std::string number = std::to_string(k);
    auto& node = model.node("LayerNormalization", "n" + number,
                            {k == 0 ? "x" : "h" + std::to_string(k - 1), "norms.0.weight", "norms.0.bias"},
                            {"h" + number});
    describe(node, "norms." + number, "%p_norms_" + number + "_weight, %p_norms_" + number + "_bias");
  }
  const OpGraph graph = model.read().value();
  EXPECT_EQ(parameters(graph), 6u);
  const OpId last = find(graph, "n2");
  EXPECT_EQ(graph.name(graph.producer(graph.inputs(last)[1])), "norms.2.weight");
  EXPECT_EQ(graph.name(graph.producer(graph.inputs(last)[2])), "norms.2.bias");
  EXPECT_THAT(graph_notes(graph),
              Contains(AllOf(HasSubstr("merged"), HasSubstr("4 ("), HasSubstr("norms.0."))));
  const OpGraph step = training_graph(graph, models::Optimizer::kSgd).value();
  EXPECT_EQ(parameters(step), 6u);
}

// torch's graph has names in small letters: BERT's modules are called LayerNorm.
TEST(OnnxOrigins, NamesInCapitalLettersAreFound) {
  Model model;
  model.proto().mutable_opset_import(0)->set_version(17);
  fill(model.initializer("layer.0.LayerNorm.weight", {8}), std::vector<float>(8, 1));
  fill(model.initializer("layer.0.LayerNorm.bias", {8}), std::vector<float>(8, 0));
  for (const std::string number : {"0", "1"})
    describe(model.node("LayerNormalization", "n" + number,
                        {number == "0" ? "x" : "h0", "layer.0.LayerNorm.weight", "layer.0.LayerNorm.bias"},
                        {"h" + number}),
             "layer." + number + ".LayerNorm",
             "%p_layer_" + number + "_layernorm_weight, %p_layer_" + number + "_layernorm_bias");
  const OpGraph graph = model.read().value();
  EXPECT_EQ(parameters(graph), 4u);
  EXPECT_NE(find(graph, "layer.1.LayerNorm.weight"), kNoOp);
  EXPECT_EQ(graph.name(graph.producer(graph.inputs(find(graph, "n0"))[1])), "layer.0.LayerNorm.weight");
}

// A node stands for a part of torch's op: its bias was merged, its weight is a folded constant.
TEST(OnnxOrigins, PartsOfAnOpFindTheirParameterByItsName) {
  Model model = merged_norms();
  auto& norm = model.node("LayerNormalization", "n", {"x", "norms.0.weight", "norms.0.bias"}, {"h"});
  describe(norm, "norms.0", "%p_norms_0_weight, %p_norms_0_bias");
  model.initializer("val_2", {8, 8});
  describe(model.node("MatMul", "m", {"h", "val_2"}, {"p"}), "fc", "%p_fc_weight, %p_fc_bias");
  describe(model.node("Add", "a", {"p", "norms.0.bias"}, {"y"}), "fc", "%p_fc_weight, %p_fc_bias");
  const OpGraph graph = model.read().value();
  EXPECT_EQ(graph.name(graph.producer(graph.inputs(find(graph, "a"))[1])), "fc.bias");
  EXPECT_EQ(graph.name(graph.producer(graph.inputs(find(graph, "m"))[1])), "val_2");
}

// Running statistics of a new batch norm equal its weight and bias.
TEST(OnnxOrigins, StatisticsOfANewBatchNormAreNotItsWeights) {
  Model model;
  model.input("image", {2, 8, 4, 4});
  fill(model.initializer("bn.weight", {8}), std::vector<float>(8, 1));
  fill(model.initializer("bn.bias", {8}), std::vector<float>(8, 0));
  auto& node =
      model.node("BatchNormalization", "n", {"image", "bn.weight", "bn.bias", "bn.bias", "bn.weight"}, {"y"});
  describe(node, "bn", "%p_bn_weight, %p_bn_bias, %b_bn_running_mean, %b_bn_running_var");
  const OpGraph graph = model.read().value();
  std::vector<std::string> names;
  for (std::size_t k = 1; k < 5; ++k)
    names.emplace_back(graph.name(graph.producer(graph.inputs(find(graph, "n"))[k])));
  EXPECT_THAT(names, ElementsAre("bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"));
  const OpGraph step = training_graph(graph, models::Optimizer::kSgd).value();
  EXPECT_EQ(parameters(step), 2u);
  EXPECT_EQ(step.type_name(find(step, "bn.running_mean")), "Buffer");
}

// torch's graph has one name for a weight that the model ties.
TEST(OnnxOrigins, TiedWeightsStayOneWithoutANote) {
  Model model;
  model.initializer("emb.weight", {8, 8});
  describe(model.node("MatMul", "a", {"x", "emb.weight"}, {"h"}), "emb", "%p_head_weight");
  describe(model.node("MatMul", "b", {"h", "emb.weight"}, {"y"}), "head", "%p_head_weight");
  const OpGraph graph = model.read().value();
  EXPECT_EQ(parameters(graph), 1u);
  EXPECT_NE(find(graph, "emb.weight"), kNoOp);
  EXPECT_THAT(graph_notes(graph), IsEmpty());
}

// The older exporter passes merged weights on by Identity nodes, and has no other trace of them.
TEST(OnnxOrigins, NotesMergedWeightsWithoutMetadata) {
  const auto notes = [](bool constant, bool by_identity) {
    Model model = merged_norms();
    std::vector<float> values(8, 1);
    if (!constant) values[3] = 2;
    fill(*model.graph().mutable_initializer(0), values);
    if (by_identity) model.node("Identity", "Identity_0", {"norms.0.weight"}, {"norms.1.weight"});
    model.node("LayerNormalization", "/norms.0/LayerNormalization", {"x", "norms.0.weight", "norms.0.bias"},
               {"h"});
    model.node("LayerNormalization", "/norms.1/LayerNormalization",
               {"h", by_identity ? "norms.1.weight" : "norms.0.weight"}, {"y"});
    return graph_notes(model.read().value());
  };
  EXPECT_THAT(notes(true, true),
              Contains(AllOf(HasSubstr("merged"), HasSubstr("'norms.1.weight' is 'norms.0.weight'"))));
  EXPECT_THAT(notes(true, false), Contains(HasSubstr("'norms.1.weight' is 'norms.0.weight'")));
  EXPECT_THAT(notes(false, true), IsEmpty());
  EXPECT_THAT(notes(false, false), IsEmpty());
}

/// An embedding [rows, 8] and a product with its transpose, which an exporter folded.
Model folded_head(std::int64_t rows, bool tied, const char* folded) {
  Model model;
  model.input("ids", {2, 5}).mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::INT64);
  std::vector<float> values(static_cast<std::size_t>(rows * 8)), turned(values.size());
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k % 251) + 1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i)
    for (std::size_t j = 0; j < 8; ++j)
      turned[j * static_cast<std::size_t>(rows) + i] = values[i * 8 + j] + (tied ? 0.0F : 0.5F);
  fill(model.initializer("emb.weight", {rows, 8}), values);
  fill(model.initializer(folded, {8, rows}), turned);
  model.node("Gather", "/emb/Gather", {"emb.weight", "ids"}, {"h"});
  model.node("MatMul", "/head/MatMul", {"h", folded}, {"y"});
  return model;
}

TEST(OnnxOrigins, NotesAWeightThatIsThereTwice) {
  for (const std::int64_t rows : {100, 40'000}) {  // Above 32 KiB the contents are read from the file.
    SCOPED_TRACE(rows);
    EXPECT_THAT(graph_notes(folded_head(rows, true, "onnx::MatMul_18").read().value()),
                Contains(AllOf(HasSubstr("twice"), HasSubstr("'onnx::MatMul_18' is 'emb.weight'"))));
    EXPECT_THAT(graph_notes(folded_head(rows, false, "onnx::MatMul_18").read().value()), IsEmpty());
  }
  Model model = folded_head(100, false, "val_6");  // torch's metadata is enough.
  describe(*model.graph().mutable_node(0), "emb", "%p_emb_weight");
  describe(*model.graph().mutable_node(1), "head", "%p_emb_weight");
  EXPECT_THAT(graph_notes(model.read().value()), Contains(HasSubstr("'val_6' is 'emb.weight'")));
}

// Nothing is known of the sizes and the nodes yet when the weights are compared.
TEST(OnnxOrigins, RefusesModelsThatContradictThemselves) {
  Model silent = merged_norms();
  silent.node("Identity", "copy", {"norms.0.weight"}, {});
  silent.node("Relu", "r", {"x"}, {"y"});
  EXPECT_TRUE(silent.read());
  const std::int64_t big = std::int64_t{1} << 62;
  for (const auto& [rows, columns] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{-4, -1}, {big + 1, 4}, {4, big + 1}, {0, 4}}) {
    SCOPED_TRACE(rows);
    Model model;
    fill(model.initializer("emb.weight", {rows, columns}), {1, 2, 3, 4});
    fill(model.initializer("val_1", {columns, rows}), {1, 2, 3, 4});
    model.node("MatMul", "m", {"x", "val_1"}, {"y"});
    EXPECT_THAT(model.error(), Not("accepted"));
  }
}

TEST(OnnxOrigins, StepsNoteTheNormsThatTheFileHasLost) {
  const auto notes = [](const std::string& rule) {
    Model model;
    model.input("image", {2, 3, 8, 8});
    model.initializer("conv1.weight", {4, 3, 3, 3});
    model.initializer("fc.weight", {4, 8});
    auto& conv = model.node("Conv", "node_Conv_33", {"image", "conv1.weight"}, {"c"});
    describe(conv, "bn1",
             "%conv2d, %p_bn1_weight, %p_bn1_bias, %b_bn1_running_mean, %b_bn1_running_var, True", rule);
    model.node("GlobalAveragePool", "p", {"c"}, {"q"});
    model.node("Flatten", "f", {"q"}, {"r"});
    model.node("Gemm", "fc", {"r", "fc.weight"}, {"y"});
    return graph_notes(training_graph(model.read().value(), models::Optimizer::kSgd).value());
  };
  EXPECT_THAT(notes("RemoveOptionalBiasFromConv, FuseBatchNormIntoConv"),
              Contains(AllOf(HasSubstr("folded batch norms into 1 of 1"), HasSubstr("'node_Conv_33'"),
                             HasSubstr("4 more channels"), HasSubstr("dynamo=False"))));
  EXPECT_THAT(notes("RemoveOptionalBiasFromConv"), Not(Contains(HasSubstr("folded batch norms"))));
}

}  // namespace
}  // namespace emplace

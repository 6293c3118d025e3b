// Goal: recurrent layers, mixtures of experts and the fused ops of ONNX Runtime have the work of the products
// that they stand for, and shapes where the file has none. Method: one node each, against the formula by
// hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <variant>

#include "graph/formats/graph_file.h"
#include "graph/training/training_graph.h"
#include "tests/graph/onnx_model.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Dims = std::vector<std::int64_t>;
struct Attribute {
  std::string name;
  std::variant<std::int64_t, std::string> value;
};
struct Fused {
  std::string type;
  std::vector<Dims> inputs;  ///< Shapes in the order of the arguments; {-1} stands for an absent one.
  std::vector<Attribute> attributes;
  Dims output;
  std::int64_t flops = 0;
};

const Dims kAbsent{-1};

onnx::NodeProto& add_fused(Model& model, const Fused& op) {
  const std::size_t domain = op.type.find("::");
  auto& node =
      model.node(domain == std::string::npos ? op.type : op.type.substr(domain + 2), "op", {}, {"y"});
  if (domain != std::string::npos) node.set_domain(op.type.substr(0, domain));
  for (std::size_t k = 0; k < op.inputs.size(); ++k) {
    const std::string name = op.inputs[k] == kAbsent ? "" : "in" + std::to_string(k);
    if (!name.empty()) model.input(name, op.inputs[k]);
    node.add_input(name);
  }
  for (const Attribute& given : op.attributes) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(given.name);
    if (const auto* number = std::get_if<std::int64_t>(&given.value)) {
      attribute.set_type(onnx::AttributeProto::INT);
      attribute.set_i(*number);
    } else {
      attribute.set_type(onnx::AttributeProto::STRING);
      attribute.set_s(std::get<std::string>(given.value));
    }
  }
  return node;
}

TEST(OnnxFusedOps, HaveTheWorkOfTheirProducts) {
  const std::string ms = "com.microsoft::";
  const std::int64_t scores = 2 * 4 * 6 * 6;  // Batch, heads, length, length.
  const std::vector<Fused> ops{
      // 3 steps of 2 rows; hidden 13.
      {"LSTM", {{3, 2, 7}, {1, 52, 7}, {1, 52, 13}}, {}, {3, 1, 2, 13}, 6 * (2 * 52 * 20 + 34 * 13)},
      {"LSTM",
       {{3, 2, 7}, {2, 52, 7}, {2, 52, 13}, {2, 104}, {2}, {2, 2, 13}, {2, 2, 13}, {2, 39}},
       {{"direction", "bidirectional"}},
       {3, 2, 2, 13},
       6 * 2 * (2 * 52 * 20 + 34 * 13 + 2 * 39)},
      {"GRU",
       {{2, 3, 7}, {1, 39, 7}, {1, 39, 13}},
       {{"layout", 1}, {"linear_before_reset", 1}},
       {2, 3, 1, 13},
       6 * (2 * 39 * 20 + 25 * 13)},
      {"RNN",
       {{3, 2, 7}, {2, 13, 7}, {2, 13, 13}},
       {{"direction", "bidirectional"}},
       {3, 2, 2, 13},
       6 * 2 * (2 * 13 * 20 + 7 * 13)},
      {ms + "DynamicQuantizeLSTM",
       {{3, 2, 7}, {1, 7, 52}, {1, 13, 52}},
       {},
       {3, 1, 2, 13},
       6 * (2 * 52 * 20 + 34 * 13)},
      {"Einsum", {{2, 3, 5, 7}, {7, 4}}, {{"equation", "...ij,jk->...ik"}}, {2, 3, 5, 4}, 2 * 6 * 5 * 7 * 4},
      {"Einsum",
       {{2, 1, 5, 7}, {3, 9, 7}},
       {{"equation", "... i d, ... j d -> ... i j"}},
       {2, 3, 5, 9},
       2 * 6 * 5 * 9 * 7},
      // 10 tokens of 16, 2 of 4 experts with 24 units.
      {ms + "MoE",
       {{10, 16}, {10, 4}, {4, 24, 16}, kAbsent, {4, 16, 24}},
       {{"k", 2}, {"activation_type", "gelu"}},
       {10, 16},
       10 * 2 * (2 * 2 * 24 * 16 + 13 * 24 + 2 * 16) + 5 * 40},
      {ms + "MoE",
       {{2, 5, 16}, {10, 4}, {4, 24, 16}, kAbsent, {4, 16, 24}, kAbsent, {4, 24, 16}},
       {{"k", 2}, {"activation_type", "silu"}},
       {2, 5, 16},
       10 * 2 * (2 * 3 * 24 * 16 + 6 * 24 + 2 * 16) + 5 * 40},
      {ms + "QMoE",
       {{10, 16}, {10, 4}, {4, 48, 8}, {4, 48}, kAbsent, {4, 16, 12}, {4, 16}},
       {{"k", 2}, {"activation_type", "swiglu"}, {"swiglu_fusion", 1}},
       {10, 16},
       10 * 2 * (2 * 3 * 24 * 16 + 6 * 24 + 2 * 16) + 5 * 40},
      {ms + "QMoE",
       {{10, 16}, {10, 4}, {4, 24, 16}, {4, 24}, kAbsent, {4, 16, 24}, {4, 16}},
       {{"k", 1}, {"expert_weight_bits", 8}},
       {10, 16},
       10 * (2 * 2 * 24 * 16 + 24 + 2 * 16) + 5 * 40},
      {ms + "MoEPacked",
       {{10, 16}, {10, 4}, {4, 24, 9}, {4, 24, 9}, {4, 16, 14}},
       {{"k", 2}},
       {10, 16},
       10 * 2 * (2 * 3 * 24 * 16 + 6 * 24 + 2 * 16) + 5 * 40},
      // Products in other forms.
      {ms + "MatMulPacked", {{3, 5, 8}, {12, 4}}, {{"N", 12}, {"K", 8}}, {3, 5, 12}, 2 * 15 * 8 * 12},
      {ms + "MatMulBlockQuantizedFp8Weight", {{5, 8}, {12, 8}, {12, 1}}, {}, {5, 12}, 2 * 5 * 8 * 12},
      {ms + "MatMulInteger16", {{5, 8}, {8, 12}}, {}, {5, 12}, 2 * 5 * 8 * 12},
      {ms + "FusedMatMulActivation", {{8, 5}, {8, 12}}, {{"transA", 1}}, {5, 12}, 2 * 5 * 8 * 12},
      {ms + "MatMulNBitsMlp", {{2, 5, 8}}, {{"N", 12}, {"K", 8}}, {2, 5, 12}, 2 * 10 * 8 * 2 * 12},
      {ms + "MatMulNBitsQkv", {{2, 5, 8}}, {{"Nq", 8}, {"Nkv", 4}, {"K", 8}}, {2, 5, 8}, 2 * 10 * 8 * 16},
      {ms + "MatMulNBitsQLoRA",
       {{5, 8}, {12, 1, 4}, {12}, {3, 1, 4}},
       {{"N", 12}, {"K", 8}},
       {5, 12},
       2 * 5 * (8 * 12 + 3 * (8 + 12))},
      {ms + "RouterGateUpProj", {{5, 8}, {8, 28}}, {{"router_size", 4}}, {5, 4}, 2 * 5 * 8 * 28},
      // Convolutions in other layouts.
      {ms + "NhwcFusedConv",
       {{2, 9, 9, 6}, {10, 3, 3, 3}},
       {{"group", 2}},
       {2, 7, 7, 10},
       2 * 2 * 49 * 10 * 3 * 9},
      {"DeformConv",
       {{2, 6, 9, 9}, {10, 6, 3, 3}, {2, 18, 7, 7}},
       {},
       {2, 10, 7, 7},
       2 * 10 * 49 * (2 * 6 * 9 + 1)},
      {"CausalConvWithState", {{2, 6, 20}, {6, 1, 4}}, {}, {2, 6, 20}, 2 * 6 * 20 * 2 * 4},
      // Attention: batch 2, length 6, 4 heads of 8.
      {ms + "Attention",
       {{2, 6, 32}, {32, 96}},
       {{"num_heads", 4}},
       {2, 6, 32},
       2 * 12 * 32 * 96 + scores * (2 * 16 + 5)},
      {ms + "Attention",
       {{2, 6, 32}, {32, 96}, {96}, kAbsent, {2, 2, 4, 10, 8}},
       {{"num_heads", 4}},
       {2, 6, 32},
       2 * 12 * 32 * 96 + 2 * 4 * 6 * 16 * (2 * 16 + 5)},
      {ms + "MultiHeadAttention",
       {{2, 6, 32}, {2, 9, 32}, {2, 9, 64}},
       {{"num_heads", 4}},
       {2, 6, 64},
       2 * 4 * 6 * 9 * (2 * (8 + 16) + 5)},
      {ms + "MultiHeadAttention",
       {{2, 1, 32}, {2, 1, 32}, {2, 1, 32}, kAbsent, kAbsent, kAbsent, {2, 4, 10, 8}, {2, 4, 10, 8}},
       {{"num_heads", 4}},
       {2, 1, 32},
       2 * 4 * 11 * (2 * 16 + 5)},
      {ms + "DecoderMaskedMultiHeadAttention",
       {{2, 1, 32}, {2, 1, 32}, {2, 1, 32}, kAbsent, kAbsent, {2, 4, 10, 8}, {2, 4, 10, 8}},
       {{"num_heads", 4}},
       {2, 1, 32},
       2 * 4 * 11 * (2 * 16 + 5)},
      {ms + "PackedAttention",
       {{11, 32}, {32, 96}, {96}, {2, 6}, {3}},
       {{"num_heads", 4}},
       {11, 32},
       2 * 11 * 32 * 96 + 11 * 4 * 6 * (2 * 16 + 5)},
      {ms + "PackedMultiHeadAttention",
       {{11, 32}, {11, 32}, {11, 32}, kAbsent, {2, 6}, {3}},
       {{"num_heads", 4}},
       {11, 32},
       11 * 4 * 6 * (2 * 16 + 5)},
      {ms + "PagedAttention",
       {{11, 32}, {11, 16}, {11, 16}, {7, 16, 2, 8}, {7, 16, 2, 8}, {3}, {2}, {2, 3}},
       {{"num_heads", 4}, {"kv_num_heads", 2}},
       {11, 32},
       11 * 4 * 48 * (2 * 16 + 5)},
      {"ai.onnx.preview::FlexAttention",
       {{2, 4, 6, 8}, {2, 4, 6, 8}, {2, 4, 6, 8}},
       {},
       {2, 4, 6, 8},
       scores * (2 * 16 + 5)},
      // 12 tokens; states of 4 heads with 8 x 16.
      {ms + "LinearAttention",
       {{2, 6, 32}, {2, 6, 32}, {2, 6, 64}},
       {{"q_num_heads", 4}, {"kv_num_heads", 4}, {"update_rule", "linear"}},
       {2, 6, 64},
       12 * 4 * 8 * 16 * (2 + 2)},
      {"LinearAttention",
       {{2, 6, 32}, {2, 6, 32}, {2, 6, 64}},
       {{"q_num_heads", 4}, {"kv_num_heads", 4}},
       {2, 6, 64},
       12 * 4 * 8 * 16 * (5 + 2)},
      {"Det", {{3, 12, 12}}, {}, {3}, 3 * 2 * 12 * 12 * 12 / 3},
      {"DFT", {{3, 16, 2}}, {{"axis", 1}}, {3, 16, 2}, 5 * 3 * 16 * 4},
  };
  for (const Fused& op : ops) {
    SCOPED_TRACE(op.type);
    Model model;
    add_fused(model, op);
    const bool inferred = op.type != "Det" && op.type != "DFT" && op.type.find("Flex") == std::string::npos;
    auto& out = *model.graph().add_output();
    out.set_name("y");
    auto& type = *out.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT);
    if (!inferred)
      for (const std::int64_t size : op.output) type.mutable_shape()->add_dim()->set_dim_value(size);
    const auto graph = model.read();
    ASSERT_TRUE(graph) << graph.error().context;
    EXPECT_EQ(shape(*graph, "op"), op.output);
    EXPECT_EQ(graph->flops(find(*graph, "op")), op.flops);
    EXPECT_THAT(uncounted_ops(*graph), IsEmpty());
  }
}

// The experts of a body whose number of steps is data are named, with their share.
TEST(OnnxFusedOps, LoopsOfUnknownLengthAreNamedAsUnknown) {
  Model model;
  model.input("steps", {}).mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::INT64);
  model.initializer("w", {8, 8});
  auto& loop = model.node("Loop", "loop", {"steps", "", "x"}, {"y"});
  auto& attribute = *loop.add_attribute();
  attribute.set_name("body");
  attribute.set_type(onnx::AttributeProto::GRAPH);
  auto& body = *attribute.mutable_g();
  for (const char* name : {"i", "on", "h"}) body.add_input()->set_name(name);
  auto& node = *body.add_node();
  node.set_op_type("MatMul");
  for (const char* name : {"h", "w"}) node.add_input(name);
  node.add_output("next");
  for (const char* name : {"on", "next"}) body.add_output()->set_name(name);
  const OpGraph graph = model.read().value();
  EXPECT_EQ(graph.flops(find(graph, "loop")), 2 * 2 * 8 * 8);
  ASSERT_EQ(uncounted_ops(graph).size(), 1u);
  EXPECT_EQ(uncounted_ops(graph)[0].type, "Loop");
  EXPECT_GT(uncounted_ops(graph)[0].share, 0.9);
}

/// The step of a node between a product with a weight and the loss.
OpGraph step_of(const Fused& op, const std::vector<std::string>& weights) {
  Model model;
  Fused named = op;
  auto& node = add_fused(model, named);
  for (const std::string& weight : weights) {
    const int k = std::stoi(weight.substr(2));
    auto& inputs = *model.graph().mutable_input();
    inputs.erase(std::ranges::find_if(inputs, [&](const auto& input) { return input.name() == weight; }));
    model.initializer("layer." + weight, op.inputs[static_cast<std::size_t>(k)]);
    node.set_input(k, "layer." + weight);
  }
  return training_graph(model.read().value(), models::Optimizer::kSgd).value();
}

TEST(OnnxFusedOps, StepsOfRecurrentLayersAndMixturesHaveTwiceTheWorkBackward) {
  const std::vector<std::pair<Fused, std::vector<std::string>>> cases{
      {{"LSTM", {{3, 2, 7}, {2, 52, 7}, {2, 52, 13}, {2, 104}}, {{"direction", "bidirectional"}}, {}, 0},
       {"in1", "in2", "in3"}},
      {{"GRU", {{3, 2, 7}, {1, 39, 7}, {1, 39, 13}, {1, 78}}, {}, {}, 0}, {"in1", "in2", "in3"}},
      {{"RNN", {{3, 2, 7}, {1, 13, 7}, {1, 13, 13}}, {}, {}, 0}, {"in1", "in2"}},
      {{"com.microsoft::MoE", {{10, 16}, {10, 4}, {4, 24, 16}, kAbsent, {4, 16, 24}}, {{"k", 2}}, {}, 0},
       {"in2", "in4"}},
  };
  for (const auto& [op, weights] : cases) {
    SCOPED_TRACE(op.type);
    const OpGraph step = step_of(op, weights);
    const OpId forward = find(step, "op");
    ASSERT_NE(forward, kNoOp);
    EXPECT_GT(step.flops(forward), 1000);
    std::size_t backward = 0;
    for (std::uint32_t i = 0; i < step.num_ops(); ++i) {
      if (step.type_name(OpId{i}) != op.type || OpId{i} == forward) continue;
      EXPECT_EQ(step.flops(OpId{i}), 2 * step.flops(forward));
      EXPECT_EQ(step.phase(OpId{i}), Phase::kBackward);
      EXPECT_EQ(step.num_outputs(OpId{i}), weights.size());
      ++backward;
    }
    EXPECT_EQ(backward, 1u);
    for (const std::string& weight : weights) EXPECT_NE(find(step, "layer." + weight), kNoOp);
  }
}

TEST(OnnxFusedOps, SizesOfAttributesThatNothingHasAreRefused) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max(), big = std::int64_t{1} << 62;
  const std::string ms = "com.microsoft::";
  const std::vector<Fused> ops{
      {ms + "GroupQueryAttention", {{1, 4, 8}}, {{"num_heads", 2}, {"kv_num_heads", most}}, {}, 0},
      {ms + "GroupQueryAttention", {{1, 4, 8}}, {{"num_heads", most}, {"kv_num_heads", most}}, {}, 0},
      {ms + "LinearAttention",
       {{1, 4, 8}, {1, 4, 8}, {1, 4, 8}},
       {{"kv_num_heads", 1}, {"q_num_heads", big}},
       {},
       0},
      {ms + "RouterGateUpProj", {{4, 8}, {8, 12}}, {{"router_size", -most}}, {}, 0},
  };
  for (const Fused& op : ops) {
    SCOPED_TRACE(op.type);
    Model model;
    add_fused(model, op);
    EXPECT_THAT(model.error(), ::testing::HasSubstr("op"));
  }
}

}  // namespace
}  // namespace emplace

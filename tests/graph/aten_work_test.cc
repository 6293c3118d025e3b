// Goal: the work of torch's ops is twice their multiply-adds, whichever road brings the op in. Method: ops as
// a traced graph describes them, by type, shapes and attributes, against products of their sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/formats/graph_file.h"
#include "graph/formats/torch/aten_ops.h"
#include "tests/graph/graph_text.h"

namespace emplace {
namespace {

using Shape = std::vector<std::int64_t>;

struct Case {
  const char* type;
  std::vector<Shape> inputs;
  Shape output;
  std::int64_t work;
  const char* attrs = "{}";
};

std::optional<std::int64_t> work_of(const Case& one, DType dtype = DType::kF32) {
  OpSpec op;
  op.type = one.type, op.attrs_json = one.attrs;
  op.outputs = {{dtype, one.output}};
  std::vector<AtenTensor> inputs;
  for (const Shape& shape : one.inputs) inputs.push_back({{}, {DType::kF32, shape}});
  return aten_work(op, std::move(inputs));
}

void expect_work(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    SCOPED_TRACE(one.type);
    EXPECT_EQ(work_of(one), std::optional{one.work});
  }
}

TEST(AtenWork, ProductsOfExpertsCountEachRowOnce) {
  expect_work(
      {{"aten::_grouped_mm", {{256, 128}, {8, 128, 64}, {8}}, {256, 64}, 2 * 256 * 128 * 64},
       {"aten::_grouped_mm", {{8, 32, 128}, {8, 128, 64}}, {8, 32, 64}, 2 * 256 * 128 * 64},
       {"aten::_grouped_mm", {{128, 256}, {256, 64}, {8}}, {8, 128, 64}, 2 * 256 * 128 * 64},
       {"aten::_grouped_mm", {{8, 32, 128}, {128, 96}, {8}}, {32, 96}, 2 * 32 * 128 * 96},
       {"aten::_scaled_grouped_mm",
        {{256, 128}, {8, 128, 64}, {256}, {8, 64}, {8}},
        {256, 64},
        2 * 256 * 128 * 64},
       {"transformers::grouped_mm_fallback", {{256, 128}, {8, 128, 64}, {8}}, {256, 64}, 2 * 256 * 128 * 64},
       {"transformers::grouped_mm_fallback_backward",
        {{256, 128}, {8, 128, 64}, {8}, {256, 64}},
        {256, 128},
        4 * 256 * 128 * 64}});
}

// It puts indices and values together; adding up those of a row is work that the indices decide.
TEST(AtenWork, MakingASparseTensorMovesBytesAlone) {
  expect_work({{"aten::_sparse_coo_tensor_with_dims_and_tensors", {{1, 8}, {8, 16}}, {100, 16}, 0}});
  EXPECT_EQ(work_of({"aten::_coalesce", {{100, 16}}, {100, 16}, 0}), std::nullopt);
}

// An LSTM of 16 to 32 units over 20 steps of 4 rows: four gates, and 34 operations per unit.
constexpr std::int64_t kCells = 20 * 4, kLstm = kCells * (2 * 128 * (16 + 32) + 32 * 34);

TEST(AtenWork, RecurrentNetworksCountTheirGates) {
  const Shape x{20, 4, 16}, h{1, 4, 32}, ih{128, 16}, hh{128, 32}, b{128}, row{4, 16}, state{4, 32};
  const std::int64_t gru = kCells * (2 * 96 * (16 + 32) + 32 * 25),
                     rnn = kCells * (2 * 32 * (16 + 32) + 32 * 7);
  expect_work(
      {{"aten::lstm", {x, h, h, ih, hh, b, b}, {20, 4, 32}, kLstm},
       {"aten::lstm", {x, h, h, ih, hh}, {20, 4, 32}, kLstm},
       {"aten::lstm", {{80, 16}, {20}, h, h, ih, hh, b, b}, {80, 32}, kLstm},
       {"aten::lstm", {x, h, h, ih, hh, b, b, ih, hh, b, b}, {20, 4, 64}, 2 * kLstm},
       {"aten::lstm",
        {x, {1, 4, 8}, h, ih, {128, 8}, b, b, {8, 32}},
        {20, 4, 8},
        kCells * (2 * (128 * (16 + 8) + 8 * 32) + 32 * 34)},
       {"aten::gru", {x, h, {96, 16}, {96, 32}, {96}, {96}}, {20, 4, 32}, gru},
       {"aten::rnn_tanh", {x, h, {32, 16}, {32, 32}, {32}, {32}}, {20, 4, 32}, rnn},
       {"aten::lstm_cell", {row, state, state, ih, hh, b, b}, {4, 32}, kLstm / 20},
       {"aten::gru_cell", {row, state, {96, 16}, {96, 32}}, {4, 32}, gru / 20},
       {"aten::rnn_relu_cell", {row, state, {32, 16}, {32, 32}}, {4, 32}, rnn / 20},
       {"aten::mkldnn_rnn_layer", {x, ih, hh, b, b, state, state}, {20, 4, 32}, kLstm, R"({"mode":2})"},
       // Without biases matrices of zeros are in their place.
       {"aten::mkldnn_rnn_layer", {x, ih, hh, ih, hh, state, state}, {20, 4, 32}, kLstm, R"({"mode":2})"},
       {"aten::mkldnn_rnn_layer_backward",
        {x, ih, hh, b, b, state, state, {20, 4, 32}, state, state},
        {20, 4, 16},
        2 * kLstm,
        R"({"mode":2})"},
       {"aten::_cudnn_rnn", {x, ih, hh, b, b, {6400}, h, h}, {20, 4, 32}, kLstm, R"({"mode":2})"},
       {"aten::_cudnn_rnn", {x, {96, 16}, {96, 32}, h}, {20, 4, 32}, gru, R"({"mode":3})"},
       {"aten::_cudnn_rnn_backward",
        {{80, 16}, ih, hh, {6400}, h, h, {80, 32}, {80, 32}},
        {80, 16},
        2 * kLstm,
        R"({"mode":2})"},
       {"aten::miopen_rnn", {x, {32, 16}, {32, 32}, h}, {20, 4, 32}, rnn, R"({"mode":1})"}});
}

TEST(AtenWork, ProductsOfAllKinds) {
  expect_work(
      {{"aten::mv", {{30, 20}, {20}}, {30}, 2 * 30 * 20},
       {"aten::dot", {{20}, {20}}, {}, 2 * 20},
       {"aten::addmv", {{30}, {30, 20}, {20}}, {30}, 2 * 30 * 20 + 30},
       {"aten::addbmm", {{30, 40}, {5, 30, 20}, {5, 20, 40}}, {30, 40}, 2 * 5 * 30 * 20 * 40 + 30 * 40},
       {"aten::_weight_int8pack_mm", {{30, 20}, {40, 20}, {40}}, {30, 40}, 2 * 30 * 20 * 40},
       {"aten::_weight_int4pack_mm_for_cpu", {{30, 64}, {32, 32}, {2, 32, 2}}, {30, 32}, 2 * 30 * 64 * 32},
       {"aten::_scaled_mm", {{30, 20}, {20, 40}, {}, {}}, {30, 40}, 2 * 30 * 20 * 40},
       {"aten::matmul_backward", {{30, 40}, {30, 20}, {20, 40}}, {30, 20}, 4 * 30 * 20 * 40},
       {"aten::linear_backward",
        {{30, 20}, {30, 40}, {40, 20}},
        {30, 20},
        2 * 30 * 20 * 40,
        R"({"output_mask":[true,false,false]})"},
       {"aten::einsum",
        {{5, 30, 20}, {5, 20, 40}},
        {5, 30, 40},
        2 * 5 * 30 * 20 * 40,
        R"({"equation":"bij,bjk->bik"})"},
       {"aten::tensordot", {{30, 4, 5}, {4, 5, 40}}, {30, 40}, 2 * 30 * 20 * 40, R"({"dims_self":[1,2]})"},
       {"aten::tensordot", {{30, 4, 5}, {4, 5, 40}}, {30, 40}, 2 * 30 * 20 * 40, R"({"dims":2})"},
       {"aten::bilinear", {{9, 20}, {9, 30}, {40, 20, 30}}, {9, 40}, 2 * 9 * (20 + 1) * 30 * 40},
       {"aten::_trilinear",
        {{9, 20}, {40, 20, 30}, {9, 30}},
        {9, 40},
        2 * 9 * (20 + 1) * 30 * 40,
        R"({"expand1":[1,3],"expand2":[0],"expand3":[1,2],"sumdim":[2,3]})"},
       {"aten::cdist", {{2, 30, 7}, {2, 40, 7}}, {2, 30, 40}, 3 * 2 * 30 * 40 * 7},
       {"aten::_cdist_backward", {{30, 40}, {30, 7}, {40, 7}, {30, 40}}, {30, 7}, 4 * 30 * 40 * 7},
       {"aten::conv_tbc", {{20, 4, 8}, {3, 8, 16}, {16}}, {18, 4, 16}, 2 * 18 * 4 * 16 * 3 * 8},
       {"aten::conv_tbc_backward",
        {{18, 4, 16}, {20, 4, 8}, {3, 8, 16}, {16}},
        {20, 4, 8},
        4 * 18 * 4 * 16 * 3 * 8}});
  EXPECT_EQ(work_of({"aten::_int_mm", {{30, 20}, {20, 40}}, {30, 40}, 0}, DType::kI32),
            std::optional<std::int64_t>{2 * 30 * 20 * 40});
  EXPECT_EQ(work_of({"aten::einsum", {{5, 30}, {5, 30}}, {5}, 0}), std::nullopt);  // No equation.
}

TEST(AtenWork, GradientsOfGroupedConvolutionsAreDividedByTheGroups) {
  constexpr std::int64_t kPass = 2 * 2 * 64 * 9 * 32 * 32;
  const Shape x{2, 64, 32, 32}, w{64, 1, 3, 3};
  expect_work(
      {{"aten::convolution", {x, w}, x, kPass, R"({"groups":64})"},
       {"aten::convolution_backward", {x, x, w}, x, kPass, R"({"output_mask":[false,true,false]})"},
       {"aten::convolution_backward", {x, x, w}, x, 2 * kPass, R"({"output_mask":[true,true,false]})"},
       {"aten::convolution_backward",
        {{2, 32, 40}, {2, 16, 20}, {16, 8, 4}},
        {2, 16, 20},
        2 * 2 * (2 * 16 * 20 * 8 * 4),
        R"({"groups":4,"transposed":true})"}});
}

TEST(AtenWork, AttentionOfEveryLayoutCountsBothProducts) {
  // 2 x 4 heads, 10 queries, 12 keys, width 8; per score 2 x 8, 2 x 8 and 5 of the softmax.
  constexpr std::int64_t kScores = 2 * 4 * 10 * 12, kForward = kScores * 37, kBackward = kScores * 84;
  const Shape q{2, 4, 10, 8}, k{2, 4, 12, 8}, shared{2, 1, 12, 8}, q2{2, 10, 4, 8}, k2{2, 12, 4, 8};
  expect_work({{"aten::scaled_dot_product_attention", {q, k, k}, q, kForward},
               {"aten::scaled_dot_product_attention", {q, shared, shared}, q, kForward},
               {"aten::_scaled_dot_product_fused_attention_overrideable", {q, k, k}, q, kForward},
               {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", {q, q, k, k, q}, q, kBackward},
               {"higher_order::flex_attention", {q, k, k}, q, kForward},
               {"higher_order::flex_attention_backward", {q, k, k, q}, q, kBackward},
               {"aten::_flash_attention_forward", {q2, k2, k2}, q2, kForward},
               {"aten::_flash_attention_forward",
                {{20, 4, 8}, {24, 4, 8}, {24, 4, 8}, {3}, {3}},
                {20, 4, 8},
                kForward,
                R"({"max_k":12})"},
               {"aten::_efficient_attention_backward", {q2, q2, k2, k2}, q2, kBackward},
               {"aten::_fused_sdp_choice", {q, k, k}, {}, 0}});
}

TEST(AtenWork, AFusedEncoderLayerHasTheWorkOfItsParts) {
  const Shape x{2, 10, 16}, b{16};
  expect_work({{"aten::_transformer_encoder_layer_fwd",
                {x, {48, 16}, {48}, {16, 16}, b, b, b, b, b, {32, 16}, {32}, {16, 32}, b, {10, 10}},
                x,
                20 * 2 * (48 * 16 + 16 * 16 + 2 * 32 * 16) + 20 * 10 * (4 * 16 + 5 * 4),
                R"({"num_heads":4})"},
               {"aten::multi_head_attention_forward",
                {{10, 2, 16}, {12, 2, 16}, {12, 2, 16}, {48, 16}, {48}, {16, 16}, b},
                {10, 2, 16},
                20 * 2 * (48 * 16 + 16 * 16) + 20 * 12 * (4 * 16 + 5 * 4),
                R"({"num_heads":4})"}});
}

TEST(AtenWork, GatheredRowsAndListsOfTensors) {
  OpSpec op;
  op.type = "aten::_foreach_mul";
  op.outputs = {{DType::kF32, {5}}, {DType::kF32, {7}}};
  EXPECT_EQ(aten_work(op, {{{}, {DType::kF32, {5}}}, {{}, {DType::kF32, {7}}}}),
            std::optional<std::int64_t>{12});
  op.type = "aten::embedding_bag";
  op.outputs = {{DType::kF32, {4, 16}}};
  EXPECT_EQ(
      aten_work(op, {{{}, {DType::kF32, {100, 16}}}, {{}, {DType::kI64, {30}}}, {{}, {DType::kI64, {4}}}}),
      std::optional<std::int64_t>{30 * 16});
}

TEST(AtenWork, AnOpOfAnotherLibraryIsUnknownUnlessItsNameIsThatOfAProduct) {
  EXPECT_EQ(work_of({"mine::product", {{4, 4}}, {4, 4}, 0}), std::nullopt);
  EXPECT_EQ(work_of({"mine::embedding", {{4, 4}}, {4, 4}, 0}), std::nullopt);
  EXPECT_EQ(work_of({"higher_order::cond", {{4, 4}}, {4, 4}, 0}), std::nullopt);
  EXPECT_EQ(work_of({"mine::mm", {{4, 5}, {5, 6}}, {4, 6}, 0}), std::optional<std::int64_t>{240});
}

TEST(AtenWork, AGraphFileMayLeaveItToTheTable) {
  const std::string file =
      R"({"format":"emplace-graph v1","name":"n","meta":{"uncounted":["mine::a"]},"ops":[
{"id":0,"name":"x","type":"Input","inputs":[],"outputs":[{"dtype":"f32","shape":[4,5]}]},
{"id":1,"name":"w","type":"Parameter","inputs":[],"outputs":[{"dtype":"f32","shape":[5,6]}]},
{"id":2,"name":"y","type":"aten::mm","inputs":[[0,0],[1,0]],"outputs":[{"dtype":"f32","shape":[4,6]}],"flops":null},
{"id":3,"name":"z","type":"mine::b","inputs":[[2,0]],"outputs":[{"dtype":"f32","shape":[4,6]}],"flops":null},
{"id":4,"name":"v","type":"mine::c","inputs":[[2,0]],"outputs":[{"dtype":"f32","shape":[4,6]}]}]})";
  const auto graph = parse_graph(std::as_bytes(std::span{file.data(), file.size()}), "g.json");
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  EXPECT_EQ(graph->flops(OpId{2}), 240);
  EXPECT_EQ(graph->flops(OpId{4}), 0);
  EXPECT_THAT(std::string{graph->meta_json()}, ::testing::HasSubstr(R"("uncounted":["mine::a","mine::b"])"));
  ASSERT_EQ(uncounted_ops(*graph).size(), 1u);
  EXPECT_EQ(uncounted_ops(*graph)[0].type, "mine::b");
}

TEST(AtenWork, AGraphFileMayListAnOpBeforeWhatItReads) {
  const std::string file = R"({"format":"emplace-graph v1","name":"n","ops":[
{"id":0,"name":"y","type":"aten::mm","inputs":[[1,0],[2,0]],"outputs":[{"dtype":"f32","shape":[4,6]}],"flops":null},
{"id":1,"name":"x","type":"Input","inputs":[],"outputs":[{"dtype":"f32","shape":[4,5]}]},
{"id":2,"name":"w","type":"Parameter","inputs":[],"outputs":[{"dtype":"f32","shape":[5,6]}]}]})";
  const auto graph = parse_graph(std::as_bytes(std::span{file.data(), file.size()}), "g.json");
  ASSERT_TRUE(graph.ok()) << graph.error().context;
  EXPECT_EQ(graph->flops(OpId{0}), 240);
}

}  // namespace
}  // namespace emplace

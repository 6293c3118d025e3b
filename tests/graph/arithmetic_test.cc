// Goal: which arithmetic an op uses follows from its operands and the framework's switches, as frameworks
// choose it. Method: types and dtypes of all vocabularies against the frameworks' documentation; files with
// eight-bit floats through each reader.
#include "graph/arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tf_graphdef.pb.h>

#include "graph/formats/tensorflow/tf_ops.h"
#include "graph/formats/torch/aten_ops.h"
#include "tests/graph/graph_text.h"
#include "tests/graph/onnx_model.h"

namespace emplace {
namespace {

using enum Arithmetic;
using enum DType;

struct ArithmeticCase {
  std::string type;
  std::vector<DType> inputs;
  Arithmetic wanted;
  std::string attrs = "{}";
  DType output = kF32;
};

OpGraph graph_of_case(const ArithmeticCase& one, const std::string& source, const std::string& meta = "{}") {
  OpGraphBuilder builder;
  builder.set_source(source).set_meta_json(meta);
  OpSpec op{.name = "op", .type = one.type, .outputs = {{one.output, {4, 4}}}, .attrs_json = one.attrs};
  for (std::size_t k = 0; k < one.inputs.size(); ++k) {
    builder.add({.name = "x" + std::to_string(k), .type = "Input", .outputs = {{one.inputs[k], {4, 4}}}});
    op.inputs.push_back({static_cast<std::uint32_t>(k), 0});
  }
  builder.add(std::move(op));
  return std::move(builder).build().value();
}

void expect_arithmetic(const std::string& source, const std::vector<ArithmeticCase>& cases) {
  for (const ArithmeticCase& one : cases) {
    SCOPED_TRACE(one.type);
    const OpGraph graph = graph_of_case(one, source);
    EXPECT_EQ(word_of(arithmetic_of(graph, OpId{static_cast<std::uint32_t>(one.inputs.size())})),
              word_of(one.wanted));
  }
}

TEST(Arithmetic, OfTorchIsThatOfTheFactors) {
  expect_arithmetic("fx", {{"aten::mm", {kF32, kF32}, kFp32},
                           {"aten::mm", {kF64, kF64}, kFp64},
                           {"aten::addmm", {kF32, kF16, kF16}, kFp16},
                           {"aten::bmm", {kBF16, kBF16}, kBf16},
                           {"aten::_int_mm", {kI8, kI8}, kInt8},
                           {"aten::mm", {kI64, kI64}, kFp32},
                           {"aten::_scaled_mm", {kF8, kF8, kF32, kF32}, kFp8},
                           {"aten::_weight_int8pack_mm", {kBF16, kI8, kBF16}, kBf16},
                           {"aten::_weight_int4pack_mm", {kBF16, kI32, kI64, kBF16}, kW4},
                           {"aten::_scaled_dot_product_flash_attention", {kBF16, kBF16, kBF16}, kBf16}});
}

TEST(Arithmetic, OfOtherOpsIsThatOfTheirData) {
  expect_arithmetic("fx", {{"aten::gelu", {kF32}, kFp32},
                           {"aten::native_layer_norm", {kBF16, kF32, kF32}, kBf16},
                           {"aten::embedding", {kF16, kI64}, kFp16},
                           {"aten::index", {kI64}, kFp32, "{}", kI64}});
  expect_arithmetic("onnx", {{"Softmax", {kF32}, kFp32}});
}

TEST(Arithmetic, CudnnHasASwitchOfItsOwn) {
  expect_arithmetic("fx", {{"aten::convolution", {kF32, kF32}, kTf32},
                           {"aten::convolution_backward", {kF32, kF32, kF32}, kTf32},
                           {"aten::_cudnn_rnn", {kF32, kF32, kF32}, kTf32},
                           {"aten::lstm_cell", {kF32, kF32, kF32, kF32, kF32}, kFp32},
                           {"aten::convolution", {kF64, kF64}, kFp64}});
}

TEST(Arithmetic, OtherFrameworksUseTf32) {
  expect_arithmetic("onnx pytorch 2.9", {{"MatMul", {kF32, kF32}, kTf32}, {"Conv", {kF32, kF32}, kTf32}});
  expect_arithmetic("tensorflow graphdef, producer 1", {{"BatchMatMulV2", {kF32, kF32}, kTf32},
                                                        {"Conv2DBackpropFilter", {kF32, kI32, kF32}, kTf32}});
  expect_arithmetic("hlo", {{"hlo::dot", {kF32, kF32}, kTf32},
                            {"hlo::dot", {kBF16, kF32}, kTf32},
                            {"hlo::dot", {kBF16, kBF16}, kBf16},
                            {"hlo::dot", {kF16, kBF16}, kTf32},
                            {"hlo::dot", {kF8, kF8}, kFp8},
                            {"hlo::fusion_dot", {kF32, kF32}, kTf32},
                            {"hlo::custom-call:__cublas$lt$matmul$f8", {kF8, kF8}, kFp8}});
}

TEST(Arithmetic, QuantisedOpsOfOnnx) {
  expect_arithmetic("onnx", {{"MatMulInteger", {kU8, kI8}, kInt8},
                             {"QLinearMatMul", {kU8, kF32, kU8, kI8, kF32, kI8}, kInt8},
                             {"QLinearConv", {kU8, kF32, kU8, kI8}, kInt8},
                             {"com.microsoft::DynamicQuantizeMatMul", {kF32, kI8, kF32}, kInt8},
                             {"com.microsoft::MatMulNBits", {kF16, kU8, kF16}, kW4, R"({"bits":4})"},
                             {"com.microsoft::MatMulNBits", {kF16, kU8, kF16}, kFp16, R"({"bits":8})"},
                             {"com.microsoft::MatMulNBits", {kF32, kU8, kF32}, kTf32, R"({"bits":4})"},
                             {"com.microsoft::GemmFloat8", {kF8, kF8}, kFp8}});
}

TEST(Arithmetic, ATrainingStepFromOnnxIsPyTorchs) {
  EXPECT_EQ(framework_of(graph_of_case({"aten::mm", {kF32, kF32}, kFp32}, "onnx pytorch 2.9")),
            Framework::kPyTorch);
  EXPECT_EQ(framework_of(graph_of_case({"MatMul", {kF32, kF32}, kFp32}, "emplace generate rnnlm",
                                       R"({"granularity":"tensorflow"})")),
            Framework::kTensorFlow);
  EXPECT_EQ(framework_of(graph_of_case({"MatMul", {kF32, kF32}, kFp32}, "pipedream")), Framework::kPyTorch);
}

TEST(Float32Use, TheTracersWordsReplaceTheDefault) {
  const ArithmeticCase product{"aten::mm", {kF32, kF32}, kTf32};
  const auto use = [&](const std::string& meta) {
    return float32_use(graph_of_case(product, "emplace.trace", meta));
  };
  EXPECT_EQ(use("{}"), (Float32Use{Float32::kIeee, Float32::kTf32}));
  EXPECT_EQ(use(R"({"float32":{"convolutions":"ieee","products":"tf32"}})"),
            (Float32Use{Float32::kTf32, Float32::kIeee}));
  EXPECT_EQ(use(R"({"float32":{"products":"tf32"}})"), (Float32Use{Float32::kTf32, Float32::kTf32}));
  EXPECT_EQ(use(R"({"float32":{"products":"exact"}})"), (Float32Use{Float32::kIeee, Float32::kTf32}));
  EXPECT_EQ(use(R"({"float32":7})"), (Float32Use{Float32::kIeee, Float32::kTf32}));
}

TEST(EightBitFloat, EveryReaderKnowsIt) {
  EXPECT_EQ(element_bytes(kF8), 1);
  EXPECT_EQ(dtype_name(kF8), "f8");
  EXPECT_EQ(parse_dtype("f8").value(), kF8);
  for (const char* name : {"f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0fnu"})
    EXPECT_EQ(aten_dtype(name).value(), kF8);
  EXPECT_EQ(tf::dtype_of(tf::DT_FLOAT8_E4M3FN), kF8);
  EXPECT_EQ(tf::dtype_of(tf::DT_FLOAT8_E5M2), kF8);
  Model model;
  model.initializer("w", {8, 4}, onnx::TensorProto::FLOAT8E4M3FN);
  auto& cast = *model.node("Cast", "cast", {"w"}, {"wide"}).add_attribute();
  cast.set_name("to"), cast.set_type(onnx::AttributeProto::INT), cast.set_i(onnx::TensorProto::FLOAT);
  model.node("MatMul", "mm", {"x", "wide"}, {"y"});
  const OpGraph onnx = model.read().value();
  EXPECT_EQ(onnx.dtype(onnx.first_output(op_named(onnx, "w"))), kF8);
  const auto hlo = read_text("x.hlo",
                             "HloModule m\n\nENTRY main {\n  a = f8e4m3fn[4,8]{1,0} parameter(0)\n"
                             "  b = f8e4m3fn[8,4]{1,0} parameter(1)\n"
                             "  ROOT c = f32[4,4]{1,0} dot(a, b), lhs_contracting_dims={1}, "
                             "rhs_contracting_dims={0}\n}\n");
  ASSERT_TRUE(hlo) << hlo.error().context;
  const OpId dot = op_named(*hlo, "c");
  EXPECT_EQ(hlo->dtype(hlo->inputs(dot)[0]), kF8);
  EXPECT_EQ(arithmetic_of(*hlo, dot), kFp8);
}

}  // namespace
}  // namespace emplace

#include <onnx.pb.h>

#include <algorithm>

#include "graph/formats/onnx/onnx_model.h"
#include "graph/formats/onnx/onnx_shape_rules.h"

namespace emplace::onnx_io {

void same_as_first(Inference& op) {
  for (std::size_t k = 0; k < op.num_outputs(); ++k) {
    if (op.shape(0) != nullptr) op.set(k, *op.shape(0));
    op.set_element(k, op.element(0));
  }
}

void broadcast_all(Inference& op) {
  op.set_element(0, op.element(0));
  Shape out;
  for (std::size_t k = 0; k < op.num_inputs(); ++k) {
    if (op.input(k) == nullptr) continue;
    if (op.shape(k) == nullptr) return;
    const auto both = broadcast(out, *op.shape(k));
    if (!both) {
      // Before opset 7 an attribute defined how the second operand aligns with the first.
      if (op.attribute("broadcast") != nullptr) return op.set(0, *op.shape(0));
      return op.reject("its inputs " + shape_text(out) + " and " + shape_text(*op.shape(k)) +
                       " do not broadcast");
    }
    out = *both;
  }
  op.set(0, std::move(out));
}

namespace {

void truth(Inference& op) {
  broadcast_all(op);
  op.set_element(0, Proto::BOOL);
}

void first_to_bool(Inference& op) {
  same_as_first(op);
  op.set_element(0, Proto::BOOL);
}

void where(Inference& op) {
  broadcast_all(op);
  op.set_element(0, op.element(1));
}

void cast(Inference& op) {
  same_as_first(op);
  op.set_element(0, static_cast<int>(op.number("to", Proto::FLOAT)));
}

void cast_like(Inference& op) {
  same_as_first(op);
  op.set_element(0, op.element(1));
}

void like(Inference& op) {
  same_as_first(op);
  if (const auto dtype = op.number("dtype", 0); dtype != 0) op.set_element(0, static_cast<int>(dtype));
}

void dropout(Inference& op) {
  same_as_first(op);
  op.set_element(1, Proto::BOOL);
}

/// Output 0 is the result; the others are statistics per channel.
void batch_norm(Inference& op) {
  same_as_first(op);
  for (std::size_t k = 1; k < op.num_outputs(); ++k) {
    if (op.shape(1) != nullptr) op.set(k, *op.shape(1));
    op.set_element(k, op.element(std::min<std::size_t>(k + 2, 4)));
  }
}

/// Mean and deviation have dimension 1 for every axis from `axis` on.
void layer_norm(Inference& op) {
  same_as_first(op);
  if (op.shape(0) == nullptr) return;
  const auto axis = axis_of(op.number("axis", -1), op.shape(0)->size());
  if (!axis) return op.reject("its axis is outside of " + shape_text(*op.shape(0)));
  Shape statistics = *op.shape(0);
  std::fill(statistics.begin() + static_cast<std::ptrdiff_t>(*axis), statistics.end(), 1);
  for (std::size_t k = 1; k < op.num_outputs(); ++k) {
    op.set(k, statistics);
    op.set_element(k, static_cast<int>(op.number("stash_type", Proto::FLOAT)));
  }
}

/// The com.microsoft op: outputs 1 and 2 are statistics, output 3 is the sum of the inputs.
void skip_norm(Inference& op) {
  same_as_first(op);
  for (std::size_t k = 1; k < std::min<std::size_t>(op.num_outputs(), 3); ++k) {
    op.set_element(k, Proto::FLOAT);
    if (op.shape(0) == nullptr || op.shape(0)->empty()) continue;
    Shape statistics = *op.shape(0);
    statistics.back() = 1;
    op.set(k, std::move(statistics));
  }
}

void quantize(Inference& op) {
  same_as_first(op);
  const auto dtype = static_cast<int>(op.number("output_dtype", 0));
  op.set_element(0, dtype != 0 ? dtype : op.input(2) != nullptr ? op.element(2) : Proto::UINT8);
}

void dequantize(Inference& op) {
  same_as_first(op);
  const auto dtype = static_cast<int>(op.number("output_dtype", 0));
  op.set_element(0, dtype != 0 ? dtype : op.element(1));
}

void dynamic_quantize(Inference& op) {
  same_as_first(op);
  op.set_element(0, Proto::UINT8);
  op.set_element(1, Proto::FLOAT), op.set(1, {});
  op.set_element(2, Proto::UINT8), op.set(2, {});
}

/// The com.microsoft op: inputs are a, its scale and zero point, b, its scale and zero point.
void quantized_pair(Inference& op) {
  op.set_element(0, op.element(0));
  if (op.shape(0) == nullptr || op.shape(3) == nullptr) return;
  if (const auto both = broadcast(*op.shape(0), *op.shape(3))) op.set(0, *both);
}

constexpr RuleRow kElementwiseRules[]{{"Abs", 1, same_as_first},
                                      {"Acos", 1, same_as_first},
                                      {"Acosh", 1, same_as_first},
                                      {"Asin", 1, same_as_first},
                                      {"Asinh", 1, same_as_first},
                                      {"Atan", 1, same_as_first},
                                      {"Atanh", 1, same_as_first},
                                      {"Ceil", 1, same_as_first},
                                      {"Celu", 1, same_as_first},
                                      {"Clip", 1, same_as_first},
                                      {"Cos", 1, same_as_first},
                                      {"Cosh", 1, same_as_first},
                                      {"CumSum", 1, same_as_first},
                                      {"CumProd", 1, same_as_first},
                                      {"Elu", 1, same_as_first},
                                      {"Erf", 1, same_as_first},
                                      {"Exp", 1, same_as_first},
                                      {"Floor", 1, same_as_first},
                                      {"Gelu", 1, same_as_first},
                                      {"HardSigmoid", 1, same_as_first},
                                      {"HardSwish", 1, same_as_first},
                                      {"Hardmax", 1, same_as_first},
                                      {"Identity", 1, same_as_first},
                                      {"ImageScaler", 1, same_as_first},
                                      {"LeakyRelu", 1, same_as_first},
                                      {"Log", 1, same_as_first},
                                      {"LogSoftmax", 1, same_as_first},
                                      {"LpNormalization", 1, same_as_first},
                                      {"LRN", 1, same_as_first},
                                      {"MeanVarianceNormalization", 1, same_as_first},
                                      {"Mish", 1, same_as_first},
                                      {"Neg", 1, same_as_first},
                                      {"BitwiseNot", 1, same_as_first},
                                      {"ParametricSoftplus", 1, same_as_first},
                                      {"PRelu", 1, same_as_first},
                                      {"Reciprocal", 1, same_as_first},
                                      {"Relu", 1, same_as_first},
                                      {"Round", 1, same_as_first},
                                      {"ScaledTanh", 1, same_as_first},
                                      {"Selu", 1, same_as_first},
                                      {"Shrink", 1, same_as_first},
                                      {"Sigmoid", 1, same_as_first},
                                      {"Sign", 1, same_as_first},
                                      {"Sin", 1, same_as_first},
                                      {"Sinh", 1, same_as_first},
                                      {"Softmax", 1, same_as_first},
                                      {"Softplus", 1, same_as_first},
                                      {"Softsign", 1, same_as_first},
                                      {"Sqrt", 1, same_as_first},
                                      {"Swish", 1, same_as_first},
                                      {"Tan", 1, same_as_first},
                                      {"Tanh", 1, same_as_first},
                                      {"ThresholdedRelu", 1, same_as_first},
                                      {"Trilu", 1, same_as_first},
                                      {"ReverseSequence", 1, same_as_first},
                                      {"InstanceNormalization", 1, same_as_first},
                                      {"GroupNormalization", 1, same_as_first},
                                      {"RMSNormalization", 1, same_as_first},
                                      {"RotaryEmbedding", 1, same_as_first},
                                      {"ScatterND", 3, same_as_first},
                                      {"ScatterElements", 3, same_as_first},
                                      {"Scatter", 3, same_as_first},
                                      {"TensorScatter", 2, same_as_first},
                                      {"Add", 2, broadcast_all},
                                      {"Sub", 2, broadcast_all},
                                      {"Mul", 2, broadcast_all},
                                      {"Div", 2, broadcast_all},
                                      {"Pow", 2, broadcast_all},
                                      {"Mod", 2, broadcast_all},
                                      {"Sum", 1, broadcast_all},
                                      {"Mean", 1, broadcast_all},
                                      {"Max", 1, broadcast_all},
                                      {"Min", 1, broadcast_all},
                                      {"BitShift", 2, broadcast_all},
                                      {"BitwiseAnd", 2, broadcast_all},
                                      {"BitwiseOr", 2, broadcast_all},
                                      {"BitwiseXor", 2, broadcast_all},
                                      {"And", 2, truth},
                                      {"Or", 2, truth},
                                      {"Xor", 2, truth},
                                      {"Equal", 2, truth},
                                      {"Greater", 2, truth},
                                      {"GreaterOrEqual", 2, truth},
                                      {"Less", 2, truth},
                                      {"LessOrEqual", 2, truth},
                                      {"Not", 1, first_to_bool},
                                      {"IsNaN", 1, first_to_bool},
                                      {"IsInf", 1, first_to_bool},
                                      {"Where", 3, where},
                                      {"Cast", 1, cast},
                                      {"CastLike", 2, cast_like},
                                      {"BitCast", 1, cast},
                                      {"Bernoulli", 1, like},
                                      {"RandomNormalLike", 1, like},
                                      {"RandomUniformLike", 1, like},
                                      {"Dropout", 1, dropout},
                                      {"BatchNormalization", 5, batch_norm},
                                      {"LayerNormalization", 1, layer_norm},
                                      {"QuantizeLinear", 2, quantize},
                                      {"DequantizeLinear", 2, dequantize},
                                      {"DynamicQuantizeLinear", 1, dynamic_quantize},
                                      {"com.microsoft::BiasGelu", 1, same_as_first},
                                      {"com.microsoft::FastGelu", 1, same_as_first},
                                      {"com.microsoft::Gelu", 1, same_as_first},
                                      {"com.microsoft::QuickGelu", 1, same_as_first},
                                      {"com.microsoft::BiasSoftmax", 1, same_as_first},
                                      {"com.microsoft::BiasDropout", 1, dropout},
                                      {"com.microsoft::RotaryEmbedding", 1, same_as_first},
                                      {"com.microsoft::GroupNorm", 1, same_as_first},
                                      {"com.microsoft::BiasAdd", 1, same_as_first},
                                      {"com.microsoft::Inverse", 1, same_as_first},
                                      {"SimplifiedLayerNormalization", 1, layer_norm},
                                      {"com.microsoft::SimplifiedLayerNormalization", 1, layer_norm},
                                      {"com.microsoft::SkipLayerNormalization", 2, skip_norm},
                                      {"com.microsoft::SkipSimplifiedLayerNormalization", 2, skip_norm},
                                      {"com.microsoft::QuantizeLinear", 2, quantize},
                                      {"com.microsoft::DequantizeLinear", 2, dequantize},
                                      {"com.microsoft::QLinearAdd", 4, quantized_pair},
                                      {"com.microsoft::QLinearMul", 4, quantized_pair},
                                      {"com.microsoft::QLinearSigmoid", 1, same_as_first},
                                      {"com.microsoft::QLinearLeakyRelu", 1, same_as_first},
                                      {"com.microsoft::QLinearSoftmax", 1, same_as_first}};

}  // namespace

std::span<const RuleRow> elementwise_rules() { return kElementwiseRules; }

}  // namespace emplace::onnx_io

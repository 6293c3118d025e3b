#include <onnx.pb.h>

#include <algorithm>

#include "graph/formats/onnx/onnx_infer.h"
#include "graph/formats/onnx/onnx_model.h"

namespace emplace::onnx_io {
namespace {

/// Gives every output the shape of input 0.
void same_as_first(Inference& op, const Shape& x) {
  for (std::size_t k = 0; k < op.num_outputs(); ++k) op.set(k, x);
}

/// Gives output 0 the broadcast shape of all inputs.
void broadcast_all(Inference& op) {
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

void dropout(Inference& op, const Shape& x) {
  same_as_first(op, x);
  op.set_element(1, Proto::BOOL);
}

/// Output 0 is the result; the others are statistics per channel.
void batch_norm(Inference& op, const Shape& x) {
  op.set(0, x);
  for (std::size_t k = 1; k < op.num_outputs(); ++k) {
    op.set(k, op.shape(1) != nullptr ? *op.shape(1) : x);
    op.set_element(k, op.element(std::min<std::size_t>(k + 2, 4)));
  }
}

/// Mean and deviation have dimension 1 for every axis from `axis` on.
void layer_norm(Inference& op, const Shape& x) {
  same_as_first(op, x);
  const auto axis = axis_of(op.number("axis", -1), x.size());
  if (!axis) return op.reject("its axis is outside of " + shape_text(x));
  Shape statistics = x;
  std::fill(statistics.begin() + static_cast<std::ptrdiff_t>(*axis), statistics.end(), 1);
  for (std::size_t k = 1; k < op.num_outputs(); ++k) {
    op.set(k, statistics);
    op.set_element(k, static_cast<int>(op.number("stash_type", Proto::FLOAT)));
  }
}

/// The com.microsoft op: outputs 1 and 2 are statistics, output 3 is the sum of the inputs.
void skip_norm(Inference& op, const Shape& x) {
  same_as_first(op, x);
  for (std::size_t k = 1; k < std::min<std::size_t>(op.num_outputs(), 3); ++k) {
    op.set_element(k, Proto::FLOAT);
    if (x.empty()) continue;
    Shape statistics = x;
    statistics.back() = 1;
    op.set(k, std::move(statistics));
  }
}

void dynamic_quantize(Inference& op) {
  if (op.shape(0) != nullptr) op.set(0, *op.shape(0));
  op.set_element(1, Proto::FLOAT), op.set(1, {});
  op.set(2, {});
}

/// The com.microsoft op: inputs are a, its scale and zero point, b, its scale and zero point.
void quantized_pair(Inference& op, const Shape& x) {
  if (op.shape(3) == nullptr) return;
  if (const auto both = broadcast(x, *op.shape(3))) op.set(0, *both);
}

int wanted_type(const Inference& op) { return static_cast<int>(op.number("to", Proto::FLOAT)); }
int drawn_type(const Inference& op) {
  const auto dtype = static_cast<int>(op.number("dtype", 0));
  return dtype != 0 ? dtype : op.element(0);
}
int quantized_type(const Inference& op) {
  const auto dtype = static_cast<int>(op.number("output_dtype", 0));
  return dtype != 0 ? dtype : op.input(2) != nullptr ? op.element(2) : Proto::UINT8;
}
int dequantized_type(const Inference& op) {
  const auto dtype = static_cast<int>(op.number("output_dtype", 0));
  return dtype != 0 ? dtype : op.element(1);
}

constexpr RuleRow kElementwiseRules[]{
    {"Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Clip Cos Cosh CumSum CumProd Elu Erf Exp Floor Gelu "
     "HardSigmoid HardSwish Hardmax Identity ImageScaler LeakyRelu Log LogSoftmax LpNormalization LRN "
     "MeanVarianceNormalization Mish Neg BitwiseNot ParametricSoftplus PRelu Reciprocal Relu Round "
     "ScaledTanh Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh "
     "ThresholdedRelu Trilu ReverseSequence InstanceNormalization GroupNormalization RMSNormalization "
     "RotaryEmbedding com.microsoft::BiasGelu com.microsoft::FastGelu com.microsoft::Gelu "
     "com.microsoft::QuickGelu com.microsoft::BiasSoftmax com.microsoft::RotaryEmbedding "
     "com.microsoft::GroupNorm com.microsoft::BiasAdd com.microsoft::Inverse com.microsoft::QLinearSigmoid "
     "com.microsoft::QLinearLeakyRelu com.microsoft::QLinearSoftmax",
     1, same_as_first},
    {"ScatterND ScatterElements Scatter", 3, same_as_first},
    {"TensorScatter", 2, same_as_first},
    {"Add Sub Mul Div Pow Mod BitShift BitwiseAnd BitwiseOr BitwiseXor", 2, broadcast_all},
    {"Sum Mean Max Min", 1, broadcast_all},
    {"And Or Xor Equal Greater GreaterOrEqual Less LessOrEqual", 2, broadcast_all, always<Proto::BOOL>},
    {"Not IsNaN IsInf", 1, same_as_first, always<Proto::BOOL>},
    {"Where", 3, broadcast_all, as_input<1>},
    {"Cast BitCast", 1, same_as_first, wanted_type},
    {"CastLike", 2, same_as_first, as_input<1>},
    {"Bernoulli RandomNormalLike RandomUniformLike", 1, same_as_first, drawn_type},
    {"Dropout com.microsoft::BiasDropout", 1, dropout},
    {"BatchNormalization", 5, batch_norm},
    {"LayerNormalization SimplifiedLayerNormalization com.microsoft::SimplifiedLayerNormalization", 1,
     layer_norm},
    {"QuantizeLinear com.microsoft::QuantizeLinear", 2, same_as_first, quantized_type},
    {"DequantizeLinear com.microsoft::DequantizeLinear", 2, same_as_first, dequantized_type},
    {"DynamicQuantizeLinear", 1, dynamic_quantize, always<Proto::UINT8>},
    {"com.microsoft::SkipLayerNormalization com.microsoft::SkipSimplifiedLayerNormalization", 2, skip_norm},
    {"com.microsoft::QLinearAdd com.microsoft::QLinearMul", 4, quantized_pair},
};

}  // namespace

std::span<const RuleRow> elementwise_rules() { return kElementwiseRules; }

}  // namespace emplace::onnx_io

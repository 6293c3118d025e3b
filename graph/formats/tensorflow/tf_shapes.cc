#include "graph/formats/tensorflow/tf_shape_rules.h"

#include <tf_graphdef.pb.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace emplace::tf {
namespace {

constexpr std::size_t kMaxRank = 16, kMaxOutputs = 64;
constexpr std::int64_t kMaxValues = 64;

MaybeShape broadcast_operands(const Op& op) { return broadcast(op.inputs[0], op.inputs[1]); }

MaybeShape expand_dims(const Op& op) {
  if (!op.values[1] || op.values[1]->size() != 1) return std::nullopt;
  return insert(op.inputs[0], op.values[1]->front(), 1);
}

MaybeShape pack(const Op& op) {
  for (const Shape& one : op.inputs)
    if (one != op.inputs[0]) return std::nullopt;
  return insert(op.inputs[0], op.whole("axis", 0), static_cast<std::int64_t>(op.inputs.size()));
}

/// The last input is the axis.
MaybeShape concat_inputs(const Op& op) {
  const Value& axis = op.values.back();
  if (!axis || axis->size() != 1) return std::nullopt;
  return concat(op, 0, op.inputs.size() - 1, axis->front());
}

MaybeShape reduce_axis(const Op& op) {
  if (!op.values[1] || op.values[1]->size() != 1) return std::nullopt;
  return without(op.inputs[0], *op.values[1], false);
}

MaybeShape one_per_dimension(const Op& op) { return Shape{static_cast<std::int64_t>(op.inputs[0].size())}; }

constexpr NamedRule kCommonRules[]{
    {"Identity", 1, as_input<0>},
    {"RefIdentity", 1, as_input<0>},
    {"StopGradient", 1, as_input<0>},
    {"PreventGradient", 1, as_input<0>},
    {"CheckNumerics", 1, as_input<0>},
    {"Snapshot", 1, as_input<0>},
    {"Relu", 1, as_input<0>},
    {"Relu6", 1, as_input<0>},
    {"LeakyRelu", 1, as_input<0>},
    {"Elu", 1, as_input<0>},
    {"Selu", 1, as_input<0>},
    {"Sigmoid", 1, as_input<0>},
    {"Tanh", 1, as_input<0>},
    {"Exp", 1, as_input<0>},
    {"Log", 1, as_input<0>},
    {"Log1p", 1, as_input<0>},
    {"Neg", 1, as_input<0>},
    {"Abs", 1, as_input<0>},
    {"Sign", 1, as_input<0>},
    {"Square", 1, as_input<0>},
    {"Sqrt", 1, as_input<0>},
    {"Rsqrt", 1, as_input<0>},
    {"Reciprocal", 1, as_input<0>},
    {"Inv", 1, as_input<0>},
    {"Floor", 1, as_input<0>},
    {"Ceil", 1, as_input<0>},
    {"Round", 1, as_input<0>},
    {"Erf", 1, as_input<0>},
    {"Sin", 1, as_input<0>},
    {"Cos", 1, as_input<0>},
    {"Softplus", 1, as_input<0>},
    {"Softsign", 1, as_input<0>},
    {"Softmax", 1, as_input<0>},
    {"LogSoftmax", 1, as_input<0>},
    {"BiasAdd", 1, as_input<0>},
    {"BiasAddV1", 1, as_input<0>},
    {"ZerosLike", 1, as_input<0>},
    {"OnesLike", 1, as_input<0>},
    {"Cast", 1, as_input<0>},
    {"LRN", 1, as_input<0>},
    {"LogicalNot", 1, as_input<0>},
    {"Cumsum", 1, as_input<0>},
    {"AddN", 1, as_input<0>},
    {"ReadVariableOp", 1, as_input<0>},
    {"PlaceholderWithDefault", 1, as_input<0>},
    {"FakeQuantWithMinMaxVars", 1, as_input<0>},
    {"FakeQuantWithMinMaxArgs", 1, as_input<0>},
    {"ClipByValue", 1, as_input<0>},
    {"EnsureShape", 1, as_input<0>},
    {"Tan", 1, as_input<0>},
    {"Sinh", 1, as_input<0>},
    {"Cosh", 1, as_input<0>},
    {"Asin", 1, as_input<0>},
    {"Acos", 1, as_input<0>},
    {"Atan", 1, as_input<0>},
    {"Asinh", 1, as_input<0>},
    {"Acosh", 1, as_input<0>},
    {"Atanh", 1, as_input<0>},
    {"Expm1", 1, as_input<0>},
    {"Erfc", 1, as_input<0>},
    {"Erfinv", 1, as_input<0>},
    {"Ndtri", 1, as_input<0>},
    {"Lgamma", 1, as_input<0>},
    {"Digamma", 1, as_input<0>},
    {"Rint", 1, as_input<0>},
    {"IsNan", 1, as_input<0>},
    {"IsInf", 1, as_input<0>},
    {"IsFinite", 1, as_input<0>},
    {"Conj", 1, as_input<0>},
    {"Reverse", 1, as_input<0>},
    {"ReverseV2", 1, as_input<0>},
    {"ReverseSequence", 1, as_input<0>},
    {"Roll", 1, as_input<0>},
    {"Cumprod", 1, as_input<0>},
    {"MatrixBandPart", 1, as_input<0>},
    {"InvertPermutation", 1, as_input<0>},
    {"Bucketize", 1, as_input<0>},
    {"AccumulateNV2", 1, as_input<0>},
    {"DeepCopy", 1, as_input<0>},
    {"Copy", 1, as_input<0>},
    {"RefEnter", 1, as_input<0>},
    {"RefExit", 1, as_input<0>},
    {"RefNextIteration", 1, as_input<0>},
    {"Enter", 1, as_input<0>},
    {"Exit", 1, as_input<0>},
    {"NextIteration", 1, as_input<0>},
    {"LoopCond", 1, as_input<0>},
    {"Add", 2, broadcast_operands},
    {"AddV2", 2, broadcast_operands},
    {"Sub", 2, broadcast_operands},
    {"Mul", 2, broadcast_operands},
    {"RealDiv", 2, broadcast_operands},
    {"Div", 2, broadcast_operands},
    {"DivNoNan", 2, broadcast_operands},
    {"Maximum", 2, broadcast_operands},
    {"Minimum", 2, broadcast_operands},
    {"Pow", 2, broadcast_operands},
    {"SquaredDifference", 2, broadcast_operands},
    {"FloorDiv", 2, broadcast_operands},
    {"FloorMod", 2, broadcast_operands},
    {"Less", 2, broadcast_operands},
    {"LessEqual", 2, broadcast_operands},
    {"Greater", 2, broadcast_operands},
    {"GreaterEqual", 2, broadcast_operands},
    {"Equal", 2, broadcast_operands},
    {"NotEqual", 2, broadcast_operands},
    {"LogicalAnd", 2, broadcast_operands},
    {"LogicalOr", 2, broadcast_operands},
    {"TruncateDiv", 2, broadcast_operands},
    {"TruncateMod", 2, broadcast_operands},
    {"Mod", 2, broadcast_operands},
    {"Atan2", 2, broadcast_operands},
    {"Xlogy", 2, broadcast_operands},
    {"Xlog1py", 2, broadcast_operands},
    {"Xdivy", 2, broadcast_operands},
    {"MulNoNan", 2, broadcast_operands},
    {"BitwiseAnd", 2, broadcast_operands},
    {"BitwiseOr", 2, broadcast_operands},
    {"BitwiseXor", 2, broadcast_operands},
    {"LeftShift", 2, broadcast_operands},
    {"RightShift", 2, broadcast_operands},
    {"NextAfter", 2, broadcast_operands},
    {"MatMul", 2, matmul},
    {"BatchMatMul", 2, matmul},
    {"BatchMatMulV2", 2, matmul},
    {"BatchMatMulV3", 2, matmul},
    {"Conv2D", 2, convolution},
    {"DepthwiseConv2dNative", 2, convolution},
    {"MaxPool", 1, pool},
    {"AvgPool", 1, pool},
    {"Mean", 2, reduce},
    {"Sum", 2, reduce},
    {"Max", 2, reduce},
    {"Min", 2, reduce},
    {"Prod", 2, reduce},
    {"All", 2, reduce},
    {"Any", 2, reduce},
    {"Pad", 2, pad},
    {"PadV2", 2, pad},
    {"MirrorPad", 2, pad},
    {"Gather", 2, gather},
    {"GatherV2", 2, gather},
    {"ResourceGather", 2, gather},
    {"ResizeBilinear", 2, resize},
    {"ResizeNearestNeighbor", 2, resize},
    {"ResizeBicubic", 2, resize},
    {"Squeeze", 1, squeeze},
    {"Reshape", 2, reshape},
    {"Transpose", 2, transpose},
    {"Select", 3, as_input<1>},
    {"ExpandDims", 2, expand_dims},
    {"Pack", 1, pack},
    {"ConcatV2", 2, concat_inputs},
    {"ArgMax", 2, reduce_axis},
    {"ArgMin", 2, reduce_axis},
    {"Fill", 1, contents_of<0>},
    {"Shape", 1, one_per_dimension},
    {"Size", 1, scalar},
    {"Rank", 1, scalar},
};

/// All rules for ops with one output, by type.
const std::unordered_map<std::string_view, NamedRule>& rules() {
  static const auto kTable = [] {
    std::unordered_map<std::string_view, NamedRule> table;
    for (const auto& some :
         {std::span<const NamedRule>{kCommonRules}, gradient_rules(), slice_rules(), list_rules()})
      for (const NamedRule& one : some) table.emplace(one.type, one);
    return table;
  }();
  return kTable;
}

}  // namespace

Value constant_value(const NodeDef& node) {
  const AttrValue* attr = role_of(node.op()) == Role::kConstant ? find(node, "value") : nullptr;
  if (attr == nullptr) return std::nullopt;
  const TensorProto& tensor = attr->tensor();
  std::int64_t n = 1;
  for (const auto& dim : tensor.tensor_shape().dim())
    if (dim.size() < 0 || __builtin_mul_overflow(n, dim.size(), &n)) return std::nullopt;
  if (n > kMaxValues || (tensor.dtype() != DT_INT32 && tensor.dtype() != DT_INT64)) return std::nullopt;
  std::vector<std::int64_t> values;
  const std::string& raw = tensor.tensor_content();
  const std::size_t width = tensor.dtype() == DT_INT32 ? 4 : 8;
  if (!raw.empty()) {
    if (raw.size() != static_cast<std::size_t>(n) * width) return std::nullopt;
    for (std::size_t at = 0; at < raw.size(); at += width) {
      std::int64_t wide = 0;
      std::int32_t narrow = 0;
      std::memcpy(width == 4 ? static_cast<void*>(&narrow) : &wide, raw.data() + at, width);
      values.push_back(width == 4 ? narrow : wide);
    }
    return values;
  }
  if (tensor.dtype() == DT_INT32) values.assign(tensor.int_val().begin(), tensor.int_val().end());
  if (tensor.dtype() == DT_INT64) values.assign(tensor.int64_val().begin(), tensor.int64_val().end());
  if (values.size() > static_cast<std::size_t>(n)) return std::nullopt;
  // Unlisted elements repeat the last one; 0 if there is none.
  values.resize(static_cast<std::size_t>(n), values.empty() ? 0 : values.back());
  return values;
}

std::optional<Inferred> infer_shapes(const NodeDef& node, std::span<const Shape> inputs,
                                     std::span<const Value> values) {
  const auto in_range = [](std::span<const std::int64_t> numbers, std::int64_t least) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](std::int64_t one) { return one >= least && one <= kMaxSize; });
  };
  for (const Shape& shape : inputs)
    if (shape.size() > kMaxRank || !in_range(shape, 0)) return std::nullopt;
  for (const Value& value : values)
    if (value && !in_range(*value, -kMaxSize)) return std::nullopt;
  const Op op{node, inputs, values};
  std::optional<Inferred> out;
  if (const auto it = rules().find(node.op()); it != rules().end()) {
    if (inputs.size() < it->second.inputs) return std::nullopt;
    if (auto shape = it->second.rule(op)) out = Inferred{{*std::move(shape)}};
  } else {
    out = several_outputs(op);
  }
  if (!out || out->shapes.size() > kMaxOutputs) return std::nullopt;
  for (const Shape& shape : out->shapes)
    if (shape.size() > kMaxRank || !in_range(shape, 0)) return std::nullopt;
  out->values = values_of(op, out->shapes);
  return out;
}

}  // namespace emplace::tf

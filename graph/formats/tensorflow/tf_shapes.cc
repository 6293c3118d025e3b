#include "graph/formats/tensorflow/tf_shape_rules.h"

#include <tf_graphdef.pb.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace emplace::tf {
namespace {

constexpr std::size_t kMaxRank = 16, kMaxOutputs = 64;
constexpr std::int64_t kMaxValues = 64;

using Rule = MaybeShape (*)(const Op&);

/// The rules for ops with one output, and the number of inputs that each uses.
const std::unordered_map<std::string_view, std::pair<std::size_t, Rule>>& rules() {
  static const Rule kFirst = [](const Op& op) -> MaybeShape { return op.inputs[0]; };
  static const Rule kBroadcast = [](const Op& op) { return broadcast(op.inputs[0], op.inputs[1]); };
  static const auto kTable = [] {
    std::unordered_map<std::string_view, std::pair<std::size_t, Rule>> table;
    for (const char* type : {"Identity",
                             "RefIdentity",
                             "StopGradient",
                             "PreventGradient",
                             "CheckNumerics",
                             "Snapshot",
                             "Relu",
                             "Relu6",
                             "LeakyRelu",
                             "Elu",
                             "Selu",
                             "Sigmoid",
                             "Tanh",
                             "Exp",
                             "Log",
                             "Log1p",
                             "Neg",
                             "Abs",
                             "Sign",
                             "Square",
                             "Sqrt",
                             "Rsqrt",
                             "Reciprocal",
                             "Inv",
                             "Floor",
                             "Ceil",
                             "Round",
                             "Erf",
                             "Sin",
                             "Cos",
                             "Softplus",
                             "Softsign",
                             "Softmax",
                             "LogSoftmax",
                             "BiasAdd",
                             "BiasAddV1",
                             "ZerosLike",
                             "OnesLike",
                             "Cast",
                             "LRN",
                             "LogicalNot",
                             "Cumsum",
                             "AddN",
                             "ReadVariableOp",
                             "PlaceholderWithDefault",
                             "FakeQuantWithMinMaxVars",
                             "FakeQuantWithMinMaxArgs",
                             "ClipByValue",
                             "EnsureShape",
                             "Tan",
                             "Sinh",
                             "Cosh",
                             "Asin",
                             "Acos",
                             "Atan",
                             "Asinh",
                             "Acosh",
                             "Atanh",
                             "Expm1",
                             "Erfc",
                             "Erfinv",
                             "Ndtri",
                             "Lgamma",
                             "Digamma",
                             "Rint",
                             "IsNan",
                             "IsInf",
                             "IsFinite",
                             "Conj",
                             "Reverse",
                             "ReverseV2",
                             "ReverseSequence",
                             "Roll",
                             "Cumprod",
                             "MatrixBandPart",
                             "InvertPermutation",
                             "Bucketize",
                             "AccumulateNV2",
                             "DeepCopy",
                             "Copy",
                             "RefEnter",
                             "RefExit",
                             "RefNextIteration",
                             "Enter",
                             "Exit",
                             "NextIteration",
                             "LoopCond"})
      table[type] = {1, kFirst};
    for (const char* type :
         {"Add",       "AddV2",      "Sub",       "Mul",         "RealDiv",           "Div",
          "DivNoNan",  "Maximum",    "Minimum",   "Pow",         "SquaredDifference", "FloorDiv",
          "FloorMod",  "Less",       "LessEqual", "Greater",     "GreaterEqual",      "Equal",
          "NotEqual",  "LogicalAnd", "LogicalOr", "TruncateDiv", "TruncateMod",       "Mod",
          "Atan2",     "Xlogy",      "Xlog1py",   "Xdivy",       "MulNoNan",          "BitwiseAnd",
          "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift",  "NextAfter"})
      table[type] = {2, kBroadcast};
    for (const char* type : {"MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"})
      table[type] = {2, matmul};
    for (const char* type : {"Conv2D", "DepthwiseConv2dNative"}) table[type] = {2, convolution};
    for (const char* type : {"MaxPool", "AvgPool"}) table[type] = {1, pool};
    for (const char* type : {"Mean", "Sum", "Max", "Min", "Prod", "All", "Any"}) table[type] = {2, reduce};
    for (const char* type : {"Pad", "PadV2", "MirrorPad"}) table[type] = {2, pad};
    for (const char* type : {"Gather", "GatherV2", "ResourceGather"}) table[type] = {2, gather};
    for (const auto& some : {gradient_rules(), slice_rules(), list_rules()})
      for (const NamedRule& one : some) table[one.type] = {one.inputs, one.rule};
    for (const char* type : {"ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic"})
      table[type] = {2, resize};
    table["Squeeze"] = {1, squeeze};
    table["Reshape"] = {2, reshape};
    table["Transpose"] = {2, transpose};
    table["Select"] = {3, [](const Op& op) -> MaybeShape { return op.inputs[1]; }};
    table["ExpandDims"] = {2, [](const Op& op) -> MaybeShape {
                             if (!op.values[1] || op.values[1]->size() != 1) return std::nullopt;
                             return insert(op.inputs[0], op.values[1]->front(), 1);
                           }};
    table["Pack"] = {1, [](const Op& op) -> MaybeShape {
                       for (const Shape& one : op.inputs)
                         if (one != op.inputs[0]) return std::nullopt;
                       return insert(op.inputs[0], op.whole("axis", 0),
                                     static_cast<std::int64_t>(op.inputs.size()));
                     }};
    table["ConcatV2"] = {2, [](const Op& op) -> MaybeShape {
                           const Value& axis = op.values.back();
                           if (!axis || axis->size() != 1) return std::nullopt;
                           return concat(op, 0, op.inputs.size() - 1, axis->front());
                         }};
    table["ArgMax"] = table["ArgMin"] = {2, [](const Op& op) -> MaybeShape {
                                           if (!op.values[1] || op.values[1]->size() != 1)
                                             return std::nullopt;
                                           return without(op.inputs[0], *op.values[1], false);
                                         }};
    table["Fill"] = {1, [](const Op& op) -> MaybeShape { return op.values[0]; }};
    table["Shape"] = {
        1, [](const Op& op) -> MaybeShape { return Shape{static_cast<std::int64_t>(op.inputs[0].size())}; }};
    for (const char* type : {"Size", "Rank"})
      table[type] = {1, [](const Op&) -> MaybeShape { return Shape{}; }};
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
    if (inputs.size() < it->second.first) return std::nullopt;
    if (auto shape = it->second.second(op)) out = Inferred{{*std::move(shape)}};
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

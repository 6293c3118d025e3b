#include "graph/formats/tf_shape_rules.h"

#include <tf_graphdef.pb.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace emplace::tf {
namespace {

constexpr std::size_t kMostRank = 16, kMostOutputs = 64;
constexpr std::int64_t kMostValues = 64;

/// x[begin:end:stride] of a vector; what shape arithmetic takes out of a shape.
std::optional<Inferred> slice_of_vector(const Op& op) {
  const auto one = [&](std::size_t k) { return op.values[k] && op.values[k]->size() == 1; };
  if (op.inputs.size() < 4 || op.inputs[0].size() != 1 || !one(1) || !one(2) || !one(3) ||
      op.values[3]->front() != 1)
    return std::nullopt;
  const std::int64_t n = op.inputs[0][0];
  const auto from_end = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + n : at, 0, n); };
  const bool scalar = (op.whole("shrink_axis_mask", 0) & 1) != 0;
  const std::int64_t begin = (op.whole("begin_mask", 0) & 1) != 0 ? 0 : from_end(op.values[1]->front());
  std::int64_t end = (op.whole("end_mask", 0) & 1) != 0 ? n : from_end(op.values[2]->front());
  if (scalar) end = begin + 1;
  if (end > n || end < begin) return std::nullopt;
  Inferred out{{scalar ? Shape{} : Shape{end - begin}}, std::nullopt};
  if (op.values[0] && static_cast<std::int64_t>(op.values[0]->size()) == n)
    out.value.emplace(op.values[0]->begin() + begin, op.values[0]->begin() + end);
  return out;
}

using Rule = MaybeShape (*)(const Op&);

/// A rule for one output, and how many inputs it looks at.
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
                             "Enter",
                             "Exit",
                             "NextIteration",
                             "LoopCond"})
      table[type] = {1, kFirst};
    for (const char* type :
         {"Add",      "AddV2",      "Sub",       "Mul",     "RealDiv",           "Div",
          "DivNoNan", "Maximum",    "Minimum",   "Pow",     "SquaredDifference", "FloorDiv",
          "FloorMod", "Less",       "LessEqual", "Greater", "GreaterEqual",      "Equal",
          "NotEqual", "LogicalAnd", "LogicalOr"})
      table[type] = {2, kBroadcast};
    for (const char* type : {"MatMul", "BatchMatMul", "BatchMatMulV2"}) table[type] = {2, matmul};
    for (const char* type : {"Conv2D", "DepthwiseConv2dNative"}) table[type] = {2, convolution};
    for (const char* type : {"MaxPool", "AvgPool"}) table[type] = {1, pool};
    for (const char* type : {"Mean", "Sum", "Max", "Min", "Prod", "All", "Any"}) table[type] = {2, reduce};
    for (const char* type : {"Pad", "PadV2", "MirrorPad"}) table[type] = {2, pad};
    for (const char* type : {"Gather", "GatherV2", "ResourceGather"}) table[type] = {2, gather};
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

/// Of ops with several outputs.
std::optional<Inferred> several(const Op& op) {
  const std::string_view type = op.node.op();
  Inferred out;
  if (type.starts_with("FusedBatchNorm") && !type.ends_with("Grad") && op.inputs.size() >= 2) {
    out.shapes = {op.inputs[0], op.inputs[1], op.inputs[1], op.inputs[1], op.inputs[1]};
    if (type == "FusedBatchNormV3") out.shapes.push_back(op.inputs[1]);
    return out;
  }
  if ((type == "Switch" || type == "RefSwitch") && !op.inputs.empty())
    return Inferred{{op.inputs[0], op.inputs[0]}, {}};
  if ((type == "Merge" || type == "RefMerge") && !op.inputs.empty())
    return Inferred{{op.inputs[0], Shape{}}, {}};
  if (type == "Split" && op.inputs.size() >= 2 && op.values[0] && op.values[0]->size() == 1) {
    const std::int64_t parts = op.whole("num_split", 0);
    Shape part = op.inputs[1];
    const auto axis = axis_of(op.values[0]->front(), part.size());
    if (!axis || parts < 1 || parts > static_cast<std::int64_t>(kMostOutputs) || part[*axis] % parts != 0)
      return std::nullopt;
    part[*axis] /= parts;
    out.shapes.assign(static_cast<std::size_t>(parts), part);
    return out;
  }
  if (type == "Unpack" && !op.inputs.empty()) {
    const auto axis = axis_of(op.whole("axis", 0), op.inputs[0].size());
    if (!axis || op.inputs[0][*axis] > static_cast<std::int64_t>(kMostOutputs)) return std::nullopt;
    Shape part = op.inputs[0];
    part.erase(part.begin() + static_cast<std::ptrdiff_t>(*axis));
    out.shapes.assign(static_cast<std::size_t>(op.inputs[0][*axis]), part);
    return out;
  }
  return std::nullopt;
}

/// What the first output holds, as far as shape arithmetic goes.
Value value_of(const Op& op) {
  const std::string_view type = op.node.op();
  if (type == "Shape") return op.inputs[0];
  if ((type == "Identity" || type == "Cast" || type == "Reshape" || type == "ExpandDims" ||
       type == "Squeeze"))
    return op.values[0];
  if (type != "Pack" && type != "ConcatV2") return std::nullopt;
  const std::size_t parts = op.values.size() - (type == "ConcatV2" ? 1 : 0);
  std::vector<std::int64_t> all;
  for (std::size_t k = 0; k < parts; ++k) {
    if (!op.values[k] || op.inputs[k].size() > (type == "Pack" ? 0u : 1u)) return std::nullopt;
    all.insert(all.end(), op.values[k]->begin(), op.values[k]->end());
    if (all.size() > static_cast<std::size_t>(kMostValues)) return std::nullopt;
  }
  return all;
}

}  // namespace

Value constant_value(const NodeDef& node) {
  const AttrValue* attr = role_of(node.op()) == Role::kConstant ? find(node, "value") : nullptr;
  if (attr == nullptr) return std::nullopt;
  const TensorProto& tensor = attr->tensor();
  std::int64_t n = 1;
  for (const auto& dim : tensor.tensor_shape().dim())
    if (dim.size() < 0 || __builtin_mul_overflow(n, dim.size(), &n)) return std::nullopt;
  if (n > kMostValues || (tensor.dtype() != DT_INT32 && tensor.dtype() != DT_INT64)) return std::nullopt;
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
  // What is not listed is as the last, or 0 where nothing is.
  values.resize(static_cast<std::size_t>(n), values.empty() ? 0 : values.back());
  return values;
}

std::optional<Inferred> infer_shapes(const NodeDef& node, std::span<const Shape> inputs,
                                     std::span<const Value> values) {
  const auto in_range = [](std::span<const std::int64_t> numbers, std::int64_t least) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](std::int64_t one) { return one >= least && one <= kMostSize; });
  };
  for (const Shape& shape : inputs)
    if (shape.size() > kMostRank || !in_range(shape, 0)) return std::nullopt;
  for (const Value& value : values)
    if (value && !in_range(*value, -kMostSize)) return std::nullopt;
  const Op op{node, inputs, values};
  std::optional<Inferred> out;
  if (node.op() == "StridedSlice") {
    out = slice_of_vector(op);
  } else if (const auto it = rules().find(node.op()); it != rules().end()) {
    if (inputs.size() < it->second.first) return std::nullopt;
    if (auto shape = it->second.second(op)) out = Inferred{{*std::move(shape)}, value_of(op)};
  } else {
    out = several(op);
  }
  if (!out) return out;
  for (const Shape& shape : out->shapes)
    if (shape.size() > kMostRank || !in_range(shape, 0)) return std::nullopt;
  return out;
}

}  // namespace emplace::tf

#include <tf_graphdef.pb.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "graph/formats/tensorflow/tf_shape_rules.h"

namespace emplace::tf {
namespace {

constexpr std::size_t kMaxNumbers = 64;

using Number = std::int64_t;
using Binary = std::optional<Number> (*)(Number a, Number b);

Number floor_div(Number a, Number b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

/// Arithmetic on two numbers; nothing on overflow or division by zero.
Binary arithmetic(std::string_view type) {
  static const std::unordered_map<std::string_view, Binary> kTable{
      {"Add", [](Number a, Number b) { return std::optional{a + b}; }},
      {"AddV2", [](Number a, Number b) { return std::optional{a + b}; }},
      {"Sub", [](Number a, Number b) { return std::optional{a - b}; }},
      {"Mul",
       [](Number a, Number b) {
         Number product = 0;
         return __builtin_mul_overflow(a, b, &product) ? std::nullopt : std::optional{product};
       }},
      {"FloorDiv", [](Number a, Number b) { return b == 0 ? std::nullopt : std::optional{floor_div(a, b)}; }},
      {"FloorMod",
       [](Number a, Number b) { return b == 0 ? std::nullopt : std::optional{a - b * floor_div(a, b)}; }},
      {"TruncateDiv", [](Number a, Number b) { return b == 0 ? std::nullopt : std::optional{a / b}; }},
      {"Div", [](Number a, Number b) { return b == 0 ? std::nullopt : std::optional{a / b}; }},
      {"Maximum", [](Number a, Number b) { return std::optional{std::max(a, b)}; }},
      {"Minimum", [](Number a, Number b) { return std::optional{std::min(a, b)}; }},
      {"Less", [](Number a, Number b) { return std::optional<Number>{a < b}; }},
      {"LessEqual", [](Number a, Number b) { return std::optional<Number>{a <= b}; }},
      {"Greater", [](Number a, Number b) { return std::optional<Number>{a > b}; }},
      {"GreaterEqual", [](Number a, Number b) { return std::optional<Number>{a >= b}; }},
      {"Equal", [](Number a, Number b) { return std::optional<Number>{a == b}; }},
      {"NotEqual", [](Number a, Number b) { return std::optional<Number>{a != b}; }},
  };
  const auto it = kTable.find(type);
  return it == kTable.end() ? nullptr : it->second;
}

/// Applies an operation element-wise to vectors or scalars; one operand may be a scalar.
Value combined(const Op& op, Binary of) {
  if (op.values.size() < 2 || !op.values[0] || !op.values[1]) return std::nullopt;
  const auto &a = *op.values[0], &b = *op.values[1];
  if (a.empty() || b.empty() || (a.size() != b.size() && a.size() != 1 && b.size() != 1)) return std::nullopt;
  std::vector<Number> out;
  for (std::size_t k = 0; k < std::max(a.size(), b.size()); ++k) {
    const auto one = of(a[a.size() == 1 ? 0 : k], b[b.size() == 1 ? 0 : k]);
    if (!one) return std::nullopt;
    out.push_back(*one);
  }
  return out;
}

/// The concatenated contents of inputs [from, to), each at most of rank `most_rank`.
Value joined(const Op& op, std::size_t from, std::size_t to, std::size_t most_rank) {
  std::vector<Number> all;
  for (std::size_t k = from; k < to; ++k) {
    if (!op.values[k] || op.inputs[k].size() > most_rank) return std::nullopt;
    all.insert(all.end(), op.values[k]->begin(), op.values[k]->end());
    if (all.size() > kMaxNumbers) return std::nullopt;
  }
  return all;
}

/// Prod, Sum, Max and Min of a vector over its only dimension.
Value reduced(const Op& op) {
  if (!op.values[0] || !op.values[1] || op.inputs[0].size() != 1 || op.values[1]->size() != 1)
    return std::nullopt;
  const auto& all = *op.values[0];
  const std::string_view type = op.node.op();
  if (type == "Sum") return Value{{std::accumulate(all.begin(), all.end(), Number{0})}};
  if (type == "Prod") {
    Number product = 1;
    for (const Number one : all)
      if (__builtin_mul_overflow(product, one, &product)) return std::nullopt;
    return Value{{product}};
  }
  if (all.empty()) return std::nullopt;
  return Value{{type == "Max" ? *std::max_element(all.begin(), all.end())
                              : *std::min_element(all.begin(), all.end())}};
}

Value sliced(const Op& op) {
  if (!op.values[0] || op.inputs[0].size() != 1) return std::nullopt;
  const auto slices = strided_slice(op);
  if (!slices) return std::nullopt;
  for (const Slice& one : *slices) {
    if (one.fresh) continue;
    if (!one.begin) return std::nullopt;
    std::vector<Number> out;
    for (Number k = 0; k < one.size; ++k) {
      const Number at = *one.begin + k * one.stride;
      if (at < 0 || at >= static_cast<Number>(op.values[0]->size())) return std::nullopt;
      out.push_back((*op.values[0])[static_cast<std::size_t>(at)]);
    }
    return out;
  }
  return std::nullopt;
}

Value gathered(const Op& op) {
  if (!op.values[0] || !op.values[1] || op.inputs[0].size() != 1) return std::nullopt;
  std::vector<Number> out;
  for (Number at : *op.values[1]) {
    if (at < 0 || at >= static_cast<Number>(op.values[0]->size())) return std::nullopt;
    out.push_back((*op.values[0])[static_cast<std::size_t>(at)]);
  }
  return out;
}

Value stitched(const Op& op, std::size_t size) {
  const std::size_t half = op.inputs.size() / 2;
  std::vector<Number> out(size, 0);
  for (std::size_t k = 0; k < half; ++k) {
    const Value &at = op.values[k], &what = op.values[half + k];
    if (!at || !what || at->size() != what->size()) return std::nullopt;
    for (std::size_t j = 0; j < at->size(); ++j) {
      if ((*at)[j] < 0 || static_cast<std::size_t>((*at)[j]) >= size) return std::nullopt;
      out[static_cast<std::size_t>((*at)[j])] = (*what)[j];
    }
  }
  return out;
}

Number product(const Shape& shape) {
  Number n = 1;
  for (const Number dim : shape)
    if (__builtin_mul_overflow(n, dim, &n)) return -1;
  return n;
}

/// Contents of the first output.
Value first_value(const Op& op, const Shape& shape) {
  const std::string_view type = op.node.op();
  const auto is = [&](std::initializer_list<std::string_view> types) {
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  if (is({"Shape", "VariableShape"})) return op.inputs[0];
  if (is({"Size", "TensorArraySizeV3", "TensorListLength"})) {
    if (type == "Size") return product(op.inputs[0]) < 0 ? Value{} : Value{{product(op.inputs[0])}};
    return op.inputs[0].empty() ? Value{} : Value{{op.inputs[0].front()}};
  }
  if (type == "Rank") return Value{{static_cast<Number>(op.inputs[0].size())}};
  if (is({"Identity", "Cast", "Reshape", "ExpandDims", "Squeeze", "StopGradient", "PreventGradient",
          "Snapshot", "EnsureShape", "PlaceholderWithDefault"}))
    return op.values[0];
  if (type == "TensorListElementShape")
    return op.inputs[0].empty() ? Value{} : Value{{op.inputs[0].begin() + 1, op.inputs[0].end()}};
  if (type == "Neg" && op.values[0]) {
    auto out = *op.values[0];
    for (Number& one : out) one = -one;
    return out;
  }
  if (const Binary of = arithmetic(type)) return shape.size() <= 1 ? combined(op, of) : std::nullopt;
  if (is({"ZerosLike", "OnesLike", "Fill"})) {
    const Number n = product(shape);
    if (n < 0 || n > static_cast<Number>(kMaxNumbers) || shape.size() > 1) return std::nullopt;
    if (type == "Fill" && (op.values.size() < 2 || !op.values[1] || op.values[1]->size() != 1))
      return std::nullopt;
    const Number with = type == "Fill" ? op.values[1]->front() : type == "OnesLike" ? 1 : 0;
    return std::vector<Number>(static_cast<std::size_t>(n), with);
  }
  if (is({"Select", "SelectV2"}) && op.values.size() == 3 && op.values[0] && op.values[0]->size() == 1)
    return op.values[0]->front() != 0 ? op.values[1] : op.values[2];
  if (is({"Prod", "Sum", "Max", "Min"})) return reduced(op);
  if (type == "Range" && op.values[0] && op.values[2] && shape.size() == 1 &&
      shape[0] <= static_cast<Number>(kMaxNumbers)) {
    std::vector<Number> out;
    for (Number k = 0; k < shape[0]; ++k) out.push_back(op.values[0]->front() + k * op.values[2]->front());
    return out;
  }
  if (type == "StridedSlice") return sliced(op);
  if (type == "InvertPermutation" && op.values[0]) {
    std::vector<Number> out(op.values[0]->size(), 0);
    for (std::size_t k = 0; k < out.size(); ++k) {
      const Number to = (*op.values[0])[k];
      if (to < 0 || to >= static_cast<Number>(out.size())) return std::nullopt;
      out[static_cast<std::size_t>(to)] = static_cast<Number>(k);
    }
    return out;
  }
  if (is({"Gather", "GatherV2"})) return gathered(op);
  if (type == "Pack") return joined(op, 0, op.values.size(), 0);
  if (type == "ConcatV2") return joined(op, 0, op.values.size() - 1, 1);
  if (type == "DynamicStitch" && shape.size() == 1 && shape[0] <= static_cast<Number>(kMaxNumbers))
    return stitched(op, static_cast<std::size_t>(shape[0]));
  if (type == "BroadcastArgs" && op.values[0] && op.values[1]) return broadcast(*op.values[0], *op.values[1]);
  return std::nullopt;
}

}  // namespace

std::vector<Number> summed_axes(const std::vector<Number>& mine, const std::vector<Number>& other) {
  const std::size_t rank = std::max(mine.size(), other.size());
  std::vector<Number> axes;
  for (std::size_t k = 0; k < rank; ++k) {
    const std::size_t from_last = rank - 1 - k;
    const Number a = from_last < mine.size() ? mine[mine.size() - 1 - from_last] : 1;
    const Number b = from_last < other.size() ? other[other.size() - 1 - from_last] : 1;
    if ((a == 1 && b != 1) || from_last >= mine.size()) axes.push_back(static_cast<Number>(k));
  }
  return axes;
}

std::vector<Value> values_of(const Op& op, std::span<const Shape> outputs) {
  const std::string_view type = op.node.op();
  if (outputs.empty()) return {};
  if (type == "ShapeN") return {op.inputs.begin(), op.inputs.end()};
  if (type == "Switch" || type == "RefSwitch" || type == "_SwitchN" || type == "IdentityN") {
    if (type == "IdentityN") return {op.values.begin(), op.values.end()};
    return std::vector<Value>(outputs.size(), op.values[0]);
  }
  if (type == "BroadcastGradientArgs")
    return {summed_axes(*op.values[0], *op.values[1]), summed_axes(*op.values[1], *op.values[0])};
  if (type == "Unpack" && op.inputs[0].size() == 1 && op.values[0] &&
      op.values[0]->size() == outputs.size()) {
    std::vector<Value> out;
    for (const Number one : *op.values[0]) out.push_back(Value{{one}});
    return out;
  }
  if (outputs.size() > 1 || op.inputs.empty()) return {};
  return {first_value(op, outputs[0])};
}

}  // namespace emplace::tf

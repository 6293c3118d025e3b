#include "graph/formats/tensorflow/tf_shapes.h"

#include <tf_graphdef.pb.h>

#include <algorithm>
#include <cstring>

#include "graph/formats/reading/rule_rows.h"
#include "graph/formats/tensorflow/tf_shape_rules.h"

namespace emplace::tf {
namespace {

constexpr std::size_t kMaxRank = 16, kMaxOutputs = 64;
constexpr std::int64_t kMaxValues = 64;

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
  static const RowsByType<NamedRule> kRules{common_rules(), slice_rules(), list_rules()};
  if (const NamedRule* known = kRules.find(node.op())) {
    if (inputs.size() < known->inputs) return std::nullopt;
    if (auto shape = known->rule(op)) out = Inferred{{*std::move(shape)}};
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

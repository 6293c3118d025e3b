#include "graph/formats/onnx/onnx_flops.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "graph/capped.h"
#include "graph/op_kind.h"

namespace emplace {
namespace {

using capped::elements;
using capped::plus;
using capped::times;

/// A whole-number attribute, or `otherwise` if it is missing or of another type.
std::int64_t number(const nlohmann::json& attrs, const char* name, std::int64_t otherwise) {
  const auto it = attrs.find(name);
  return it == attrs.end() || !it->is_number_integer() ? otherwise : it->get<std::int64_t>();
}

std::int64_t kernel_area(const nlohmann::json& attrs) {
  std::int64_t area = 1;
  if (const auto it = attrs.find("kernel_shape"); it != attrs.end() && it->is_array()) {
    for (const auto& size : *it)
      area = times(area, size.is_number_integer() ? std::max<std::int64_t>(size.get<std::int64_t>(), 0) : 1);
  }
  return area;
}

/// 2 · `base` · channels per group · kernel area, from weights
///   [out, in / groups, kernel…]
///   [in, out / groups, kernel…]  transposed
std::int64_t convolution(std::int64_t base, const OnnxShape* weight) {
  if (weight == nullptr || weight->size() < 2) return 0;
  return times(2, times(base, elements(std::span{*weight}.subspan(1))));
}

/// One cell per step, direction and row: W x + R h, plus the gates' element-wise work.
std::int64_t recurrent(std::span<const OnnxShape* const> inputs, std::int64_t per_unit) {
  if (inputs.size() < 3 || inputs[0] == nullptr || inputs[1] == nullptr || inputs[2] == nullptr) return 0;
  const OnnxShape &x = *inputs[0], &w = *inputs[1], &r = *inputs[2];
  if (x.size() != 3 || r.size() != 3) return 0;
  const std::int64_t cells = times(x[0], x[1]);
  return plus(times(2, times(cells, plus(elements(w), elements(r)))),
              times(cells, times(r[0], times(r[2], per_unit))));
}

/// Twice the product of all label sizes: "bij,bjk->bik" is 2 b i j k. With an ellipsis, the output's size.
std::int64_t einsum(std::span<const OnnxShape* const> inputs, const OnnxShape& output,
                    const nlohmann::json& attrs) {
  const auto it = attrs.find("equation");
  if (it == attrs.end() || !it->is_string()) return elements(output);
  std::map<char, std::int64_t> size;
  std::size_t argument = 0, axis = 0;
  for (const char label : it->get_ref<const std::string&>()) {
    if (label == '-') break;
    if (label == ' ') continue;
    if (label == '.') return times(2, elements(output));
    if (label == ',') {
      ++argument, axis = 0;
      continue;
    }
    if (argument >= inputs.size() || inputs[argument] == nullptr || axis >= inputs[argument]->size())
      return elements(output);
    auto& known = size[label];
    known = std::max(known, (*inputs[argument])[axis++]);
  }
  std::int64_t product = 2;
  for (const auto& [label, n] : size) product = times(product, n);
  return product;
}

/// Scores and their weighted sum, 2 · batch · query heads · length · total length · (key size + value size),
/// plus a softmax over the scores.
std::int64_t attention_work(std::int64_t rows, std::int64_t total, std::int64_t key_size,
                            std::int64_t value_size) {
  return times(times(rows, total), plus(5, times(2, plus(key_size, value_size))));
}

/// ONNX's attention on [batch, heads, length, size] or [batch, length, heads · size].
std::int64_t attention(std::span<const OnnxShape* const> inputs, const nlohmann::json& attrs) {
  if (inputs.size() < 3 || inputs[0] == nullptr || inputs[1] == nullptr || inputs[2] == nullptr) return 0;
  const OnnxShape &q = *inputs[0], &k = *inputs[1], &v = *inputs[2];
  if (q.size() < 3 || k.size() != q.size() || v.size() != q.size()) return 0;
  const bool flat = q.size() == 3;
  const std::int64_t heads = std::max<std::int64_t>(1, flat ? number(attrs, "q_num_heads", 1) : q[1]);
  const std::int64_t kv_heads = std::max<std::int64_t>(1, flat ? number(attrs, "kv_num_heads", 1) : k[1]);
  std::int64_t total = flat ? k[1] : k[2];
  if (inputs.size() > 4 && inputs[4] != nullptr && inputs[4]->size() == 4)
    total = plus(total, (*inputs[4])[2]);
  const std::int64_t rows = times(q[0], times(heads, flat ? q[1] : q[2]));
  return flat ? attention_work(rows, total, q[2] / heads, v[2] / kv_heads)
              : attention_work(rows, total, q[3], v[3]);
}

/// Attention ops of com.microsoft: with input projection, with given Q, K and V, or with fewer K and V heads.
std::int64_t contrib_attention(Formula formula, std::span<const OnnxShape* const> inputs,
                               const OnnxShape& output, const nlohmann::json& attrs) {
  const auto input = [&](std::size_t k) { return k < inputs.size() ? inputs[k] : nullptr; };
  const OnnxShape* x = input(0);
  if (x == nullptr || x->size() < 3 || output.size() != 3) return 0;
  const std::int64_t heads = std::max<std::int64_t>(1, number(attrs, "num_heads", 1));
  const std::int64_t rows = times(times((*x)[0], (*x)[1]), heads), size = output[2] / heads;
  std::int64_t total = (*x)[1], projection = 0;
  if (formula == Formula::kProjectedAttention && input(1) != nullptr && input(1)->size() == 2)
    projection = times(2, times(elements(*x), (*input(1))[1]));
  if (formula == Formula::kMultiHeadAttention && input(1) != nullptr && input(1)->size() >= 3)
    total = input(1)->size() == 4 ? (*input(1))[2] : (*input(1))[1];
  if (formula == Formula::kGroupedAttention && input(3) != nullptr && input(3)->size() == 4)
    total = std::max(total, (*input(3))[2]);
  return plus(projection, attention_work(rows, total, size, size));
}

}  // namespace

std::optional<std::int64_t> onnx_flops(std::string_view type, std::span<const OnnxShape* const> inputs,
                                       const OnnxShape& output, const nlohmann::json& attrs, bool floating) {
  const OpKind* kind = find_kind(Vocabulary::kOnnx, type);
  if (kind == nullptr || kind->work.formula == Formula::kUnknown || kind->work.formula == Formula::kBody)
    return std::nullopt;
  const WorkRule& rule = kind->work;
  if (!floating && !rule.whole_numbers) return 0;
  const std::int64_t n = elements(output);
  const auto input = [&](std::size_t k) { return k < inputs.size() ? inputs[k] : nullptr; };
  const auto read = [&](std::size_t k) { return input(k) == nullptr ? 0 : elements(*input(k)); };
  if (const auto work = work_of_elements(rule, n, inputs.size(), read)) return work;
  const std::int64_t bias = input(2) != nullptr ? n : 0;
  const auto contraction = [&](bool transposed) {
    if (input(0) == nullptr || input(0)->empty()) return std::int64_t{0};
    const OnnxShape& a = *input(0);
    return times(2, times(n, transposed && a.size() > 1 ? a[a.size() - 2] : a.back()));
  };
  switch (rule.formula) {
    case Formula::kConvolution:
      return plus(convolution(n, input(1)), bias);
    case Formula::kBareConvolution:
      return convolution(n, input(1));
    case Formula::kQuantisedConvolution:
      return convolution(n, input(3));
    case Formula::kTransposedConvolution:
      return plus(convolution(read(0), input(1)), bias);
    case Formula::kContraction:
      return contraction(false);
    case Formula::kTransposableContraction:
      return contraction(number(attrs, "transA", 0) != 0);
    case Formula::kMatrixProductPlus:
      if (input(0) == nullptr || input(0)->size() != 2) return 0;
      return plus(times(2, times(n, (*input(0))[number(attrs, "transA", 0) != 0 ? 0 : 1])), bias);
    case Formula::kRecurrent:
      return recurrent(inputs, rule.amount);
    case Formula::kEinsum:
      return einsum(inputs, output, attrs);
    case Formula::kAttention:
      return attention(inputs, attrs);
    case Formula::kProjectedAttention:
    case Formula::kMultiHeadAttention:
    case Formula::kGroupedAttention:
      return contrib_attention(rule.formula, inputs, output, attrs);
    case Formula::kWindow:
      return times(n, kernel_area(attrs));
    case Formula::kLocalResponse:
      return times(n, plus(5, std::clamp<std::int64_t>(number(attrs, "size", 1), 0, 1 << 20)));
    case Formula::kResize:
      return times(n, !attrs.contains("mode") || attrs["mode"] == "nearest" ? 1 : 8);
    default:
      return std::nullopt;
  }
}

}  // namespace emplace

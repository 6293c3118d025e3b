#include "graph/formats/onnx/onnx_flops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "graph/capped.h"
#include "graph/formats/reading/shape_arithmetic.h"
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

/// One cell per step, direction and row: W x + R h, plus the gates' element-wise work. The peepholes are
/// input 7. A quantised R is transposed: [directions, hidden, gates · hidden].
std::int64_t recurrent(std::span<const OnnxShape* const> inputs, std::int64_t per_unit) {
  if (inputs.size() < 3 || inputs[0] == nullptr || inputs[1] == nullptr || inputs[2] == nullptr) return 0;
  const OnnxShape &x = *inputs[0], &w = *inputs[1], &r = *inputs[2];
  if (x.size() != 3 || r.size() != 3) return 0;
  const std::int64_t cells = times(x[0], x[1]);
  const std::int64_t peepholes = inputs.size() > 7 && inputs[7] != nullptr ? elements(*inputs[7]) : 0;
  return plus(times(2, times(cells, plus(peepholes, plus(elements(w), elements(r))))),
              times(cells, times(r[0], times(std::min(r[1], r[2]), per_unit))));
}

std::string text(const nlohmann::json& attrs, const char* name) {
  const auto it = attrs.find(name);
  return it != attrs.end() && it->is_string() ? it->get<std::string>() : std::string{};
}

/// Experts of one token: two or three products with weights [experts, out, in], their activation, and the
/// weighted sum; and a softmax over all experts. Quantised weights are packed in bytes.
///   x [tokens…, hidden]
std::int64_t mixture(std::span<const OnnxShape* const> inputs, const nlohmann::json& attrs,
                     std::size_t distance) {
  const auto input = [&](std::size_t k) { return k < inputs.size() ? inputs[k] : nullptr; };
  const OnnxShape *x = input(0), *router = input(1), *first = input(2);
  if (x == nullptr || x->empty() || x->back() <= 0 || router == nullptr || router->empty()) return 0;
  if (first == nullptr || first->size() != 3 || (*first)[0] <= 0) return 0;
  const std::string kind = text(attrs, "quant_type");
  const std::int64_t hidden = x->back(), tokens = elements(*x) / hidden;
  std::int64_t weights = 0, inner = 0;  // All weights of one expert, and its inner width.
  for (std::size_t k = 0; k < 3; ++k) {
    const OnnxShape* one = input(2 + k * distance);
    if (one == nullptr || one->size() != 3) continue;
    static constexpr std::array<const char*, 3> kBits{"fc1_expert_weight_bits", "fc2_expert_weight_bits",
                                                      "fc3_expert_weight_bits"};
    std::int64_t bits = distance == 2 ? 8 : number(attrs, kBits[k], number(attrs, "expert_weight_bits", 4));
    if (kind.find("fp8") != std::string::npos) bits = 8;
    std::int64_t each = times(elements(*one) / (*first)[0], 8) / std::clamp<std::int64_t>(bits, 1, 8);
    if (distance == 1) each = times((*one)[1], k == 2 ? (*first)[1] : hidden);  // Blocks of any format.
    weights = plus(weights, each);
    if (k == (distance == 1 ? 2u : 1u)) inner = each / hidden;
  }
  const std::string activation = text(attrs, "activation_type");
  const std::int64_t active = activation == "identity"                         ? 0
                              : activation == "gelu" || activation == "geglu"  ? 13
                              : activation == "silu" || activation == "swiglu" ? 6
                              : activation.empty() && distance == 1            ? 6
                                                                               : 1;
  const std::int64_t expert = plus(times(2, weights), plus(times(active, inner), times(2, hidden)));
  return plus(times(tokens, times(std::max<std::int64_t>(number(attrs, "k", 1), 1), expert)),
              times(5, elements(*router)));
}

/// Products of rows of the first input with weights whose sizes are attributes, or the columns of input 1.
std::int64_t shared_products(std::string_view type, std::span<const OnnxShape* const> inputs,
                             const nlohmann::json& attrs) {
  if (inputs.empty() || inputs[0] == nullptr || inputs[0]->empty() || inputs[0]->back() <= 0) return 0;
  const std::int64_t depth = inputs[0]->back(), rows = elements(*inputs[0]) / depth;
  const std::int64_t n = std::max<std::int64_t>(number(attrs, "N", 0), 0);
  const std::int64_t qkv = plus(std::max<std::int64_t>(number(attrs, "Nq", 0), 0),
                                times(2, std::max<std::int64_t>(number(attrs, "Nkv", 0), 0)));
  std::int64_t width = plus(type.ends_with("Mlp") ? times(2, n) : n, qkv), adapter = 0;
  if (width == 0 && inputs.size() > 1 && inputs[1] != nullptr && inputs[1]->size() == 2)
    width = (*inputs[1])[1];
  if (type.ends_with("QLoRA") && inputs.size() > 3 && inputs[3] != nullptr && !inputs[3]->empty())
    adapter = times((*inputs[3])[0], plus(depth, n));
  return times(2, times(rows, plus(times(depth, width), adapter)));
}

/// A recurrence over tokens: each head scales, updates and reads its state [key size, value size].
///   query, key, value [batch, length, heads · size], or of packed tokens [tokens, heads, size]
///   state             [batch, heads of values, …], input 3, or 6 of packed tokens
std::int64_t linear_attention(std::string_view type, std::span<const OnnxShape* const> inputs,
                              const nlohmann::json& attrs) {
  const auto input = [&](std::size_t k) { return k < inputs.size() ? inputs[k] : nullptr; };
  const OnnxShape *q = input(0), *k = input(1), *v = input(2);
  const OnnxShape* state = input(type.ends_with("GatedDeltaNet") ? 6 : 3);
  if (q == nullptr || q->empty()) return 0;
  const bool packed = type.ends_with("GatedDeltaNet");
  const std::int64_t tokens = packed || q->size() < 2 ? q->front() : times((*q)[0], (*q)[1]);
  const std::int64_t kv_heads = std::max<std::int64_t>(1, number(attrs, "kv_num_heads", 1));
  const std::int64_t heads = std::max(kv_heads, number(attrs, "q_num_heads", 1));
  std::int64_t cells = 0, read = 0;  // One token, all heads.
  if (packed && state != nullptr && state->size() == 4) {
    cells = read = elements(std::span{*state}.subspan(1));
  } else if (packed && k != nullptr && v != nullptr && v->size() == 3 && k->size() == 3) {
    cells = read = times((*v)[1], times((*v)[2], (*k)[2]));
  } else if (!packed && k != nullptr && v != nullptr && !k->empty() && !v->empty()) {
    cells = times(kv_heads, times(k->back() / kv_heads, v->back() / kv_heads));
    read = times(heads, cells / kv_heads);
  }
  const std::string rule = text(attrs, "update_rule");
  const bool gated = rule.empty() || rule.find("gated") != std::string::npos;
  const bool delta = rule.empty() || rule.find("delta") != std::string::npos;
  return times(tokens, plus(times(cells, 2 + (gated ? 1 : 0) + (delta ? 2 : 0)), times(2, read)));
}

/// 5 log2 (length) per complex element of the result, half of it for a one-sided result.
///   input, result […, length, 1 or 2]; of a DFT the axis is an attribute or the last but one
std::int64_t fourier(std::string_view type, std::span<const OnnxShape* const> inputs, const OnnxShape& output,
                     const nlohmann::json& attrs) {
  if (output.size() < 2 || inputs.empty() || inputs[0] == nullptr) return 0;
  const bool framed = type == "STFT", half = number(attrs, "onesided", framed ? 1 : 0) != 0;
  const auto rank = static_cast<std::int64_t>(output.size());
  const std::int64_t wanted = framed ? -2 : number(attrs, "axis", -2);
  const auto axis =
      static_cast<std::size_t>(std::clamp<std::int64_t>(wanted < 0 ? wanted + rank : wanted, 0, rank - 1));
  std::int64_t length = half ? 2 * (output[axis] - 1) : output[axis];
  if (!framed && axis < inputs[0]->size()) length = std::max(length, (*inputs[0])[axis]);
  const double each = 2.5 * std::log2(static_cast<double>(std::max<std::int64_t>(length, 1)));
  return static_cast<std::int64_t>(std::min(each * static_cast<double>(elements(output)), 1e18));
}

/// Twice the product of all label sizes, and of the dimensions of an ellipsis: "bij,bjk->bik" is 2 b i j k.
std::int64_t einsum(std::span<const OnnxShape* const> inputs, const OnnxShape& output,
                    const nlohmann::json& attrs) {
  std::vector<Shape> shapes;
  for (const OnnxShape* one : inputs)
    if (one != nullptr) shapes.emplace_back(one->begin(), one->end());
  const auto sizes = emplace::einsum(text(attrs, "equation"), shapes);
  return sizes ? times(2, sizes->all) : elements(output);
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
/// Inputs of the packed forms are [tokens, …], with the length of a sequence in the offsets of its tokens.
std::int64_t contrib_attention(std::string_view type, Formula formula,
                               std::span<const OnnxShape* const> inputs, const OnnxShape& output,
                               const nlohmann::json& attrs) {
  const auto input = [&](std::size_t k, std::size_t rank) {
    return k < inputs.size() && inputs[k] != nullptr && inputs[k]->size() == rank ? inputs[k] : nullptr;
  };
  const OnnxShape* x = inputs.empty() ? nullptr : inputs[0];
  const bool packed = type.find("Packed") != std::string_view::npos || formula == Formula::kPagedAttention;
  if (x == nullptr || x->size() < (packed ? 2 : 3) || output.size() < 2 || output.size() > 3) return 0;
  const std::int64_t heads = std::max<std::int64_t>(1, number(attrs, "num_heads", 1));
  const std::int64_t tokens = elements(std::span{output}.first(output.size() - 1));
  const std::int64_t value = output.back() / heads;
  std::int64_t key = value, total = packed ? 0 : (*x)[1], projection = 0;
  const auto add_past = [&](std::size_t k, std::size_t rank, std::size_t axis) {
    if (const OnnxShape* past = input(k, rank)) total = plus(total, (*past)[axis]);
  };
  if (formula == Formula::kProjectedAttention) {
    const bool quantised = type.ends_with("QAttention"), apart = type.ends_with("QOrderedAttention");
    for (const std::size_t k : {apart ? 5u : 1u, apart ? 6u : 0u, apart ? 7u : 0u})
      if (const OnnxShape* weights = k == 0 ? nullptr : input(k, 2))
        projection = plus(projection, times(2, times(elements(*x), weights->back())));
    if (const auto sizes = attrs.find("qkv_hidden_sizes");
        sizes != attrs.end() && sizes->is_array() && sizes->size() == 3 && (*sizes)[0].is_number_integer())
      key = (*sizes)[0].get<std::int64_t>() / heads;
    add_past(quantised ? 8 : apart ? 18 : 4, 5, 3);
    if (const OnnxShape* offsets = packed ? input(3, 2) : nullptr) total = (*offsets)[1];
  } else if (formula == Formula::kMultiHeadAttention) {
    const OnnxShape* keys = inputs.size() > 1 ? inputs[1] : nullptr;
    if (keys != nullptr && x->size() == (packed ? 2u : 3u)) key = x->back() / heads;
    if (!packed && keys != nullptr && keys->size() >= 3) total = (*keys)[keys->size() == 4 ? 2 : 1];
    add_past(type.ends_with("DecoderMaskedMultiHeadAttention") ? 5 : 6, 4, 2);
    if (const OnnxShape* offsets = packed ? input(4, 2) : nullptr) total = (*offsets)[1];
  } else if (formula == Formula::kPagedAttention) {
    if (const OnnxShape* cache = input(3, 4), *blocks = input(7, 2); cache != nullptr && blocks != nullptr)
      total = times((*cache)[1], (*blocks)[1]);
  } else if (const OnnxShape* past = input(3, 4)) {
    total = std::max(total, (*past)[2]);
  }
  return plus(projection, attention_work(times(tokens, heads), total, key, value));
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
    case Formula::kPagedAttention:
      return contrib_attention(type, rule.formula, inputs, output, attrs);
    case Formula::kMixture:
      return mixture(inputs, attrs, rule.amount);
    case Formula::kSharedProducts:
      return shared_products(type, inputs, attrs);
    case Formula::kLinearAttention:
      return linear_attention(type, inputs, attrs);
    case Formula::kFourier:
      return fourier(type, inputs, output, attrs);
    case Formula::kFactorisation: {
      if (input(0) == nullptr || input(0)->size() < 2) return 0;
      const std::int64_t size = input(0)->back();
      return times(rule.amount, times(read(0), size)) / 3;
    }
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

#include "graph/formats/onnx_flops.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "graph/capped.h"

namespace emplace {
namespace {

using capped::elements;
using capped::plus;
using capped::times;

using Table = std::unordered_map<std::string_view, std::int64_t>;

/// A whole-number attribute, or `otherwise` where it is missing or something else.
std::int64_t number(const nlohmann::json& attrs, const char* name, std::int64_t otherwise) {
  const auto it = attrs.find(name);
  return it == attrs.end() || !it->is_number_integer() ? otherwise : it->get<std::int64_t>();
}

/// Operations per element of the output.
const Table& per_output() {
  static const Table table{{"Add", 1},
                           {"Sub", 1},
                           {"Mul", 1},
                           {"Div", 1},
                           {"Neg", 1},
                           {"Abs", 1},
                           {"Relu", 1},
                           {"PRelu", 1},
                           {"LeakyRelu", 1},
                           {"ThresholdedRelu", 1},
                           {"Mod", 1},
                           {"Clip", 2},
                           {"Sigmoid", 4},
                           {"Tanh", 5},
                           {"Exp", 4},
                           {"Log", 4},
                           {"Sqrt", 2},
                           {"Reciprocal", 1},
                           {"Pow", 4},
                           {"Erf", 8},
                           {"Sin", 4},
                           {"Cos", 4},
                           {"Tan", 4},
                           {"Asin", 4},
                           {"Acos", 4},
                           {"Atan", 4},
                           {"Sinh", 5},
                           {"Cosh", 5},
                           {"Asinh", 6},
                           {"Acosh", 6},
                           {"Atanh", 6},
                           {"Elu", 4},
                           {"Selu", 4},
                           {"Celu", 5},
                           {"Softplus", 5},
                           {"Softsign", 2},
                           {"Gelu", 12},
                           {"HardSigmoid", 3},
                           {"HardSwish", 4},
                           {"Mish", 9},
                           {"Swish", 5},
                           {"Softmax", 5},
                           {"LogSoftmax", 5},
                           {"Hardmax", 2},
                           {"Shrink", 2},
                           {"Ceil", 1},
                           {"Floor", 1},
                           {"Round", 1},
                           {"Sign", 1},
                           {"CumSum", 1},
                           {"CumProd", 1},
                           {"Bernoulli", 3},
                           {"RandomNormal", 3},
                           {"RandomUniform", 3},
                           {"RandomNormalLike", 3},
                           {"RandomUniformLike", 3},
                           {"Range", 1},
                           {"RotaryEmbedding", 3},
                           {"GridSample", 12},
                           {"AffineGrid", 8},
                           {"DequantizeLinear", 2},
                           {"BlackmanWindow", 12},
                           {"HannWindow", 8},
                           {"HammingWindow", 8},
                           {"com.microsoft::BiasGelu", 13},
                           {"com.microsoft::FastGelu", 12},
                           {"com.microsoft::Gelu", 12},
                           {"com.microsoft::QuickGelu", 6},
                           {"com.microsoft::BiasAdd", 2},
                           {"com.microsoft::BiasSoftmax", 6},
                           {"com.microsoft::RotaryEmbedding", 3},
                           {"com.microsoft::DequantizeLinear", 2},
                           {"com.microsoft::EmbedLayerNormalization", 10}};
  return table;
}

/// Per element of the first input.
const Table& per_input() {
  static const Table table{{"BatchNormalization", 8},
                           {"LayerNormalization", 8},
                           {"InstanceNormalization", 8},
                           {"GroupNormalization", 8},
                           {"RMSNormalization", 5},
                           {"SimplifiedLayerNormalization", 5},
                           {"MeanVarianceNormalization", 6},
                           {"LpNormalization", 4},
                           {"GlobalAveragePool", 1},
                           {"GlobalMaxPool", 1},
                           {"GlobalLpPool", 4},
                           {"ArgMax", 1},
                           {"ArgMin", 1},
                           {"TopK", 1},
                           {"SoftmaxCrossEntropyLoss", 7},
                           {"NegativeLogLikelihoodLoss", 1},
                           {"com.microsoft::GroupNorm", 8},
                           {"com.microsoft::SimplifiedLayerNormalization", 5},
                           {"com.microsoft::SkipLayerNormalization", 9},
                           {"com.microsoft::SkipSimplifiedLayerNormalization", 6}};
  return table;
}

/// The same for ops whose result, or input, is of whole numbers although they calculate with real ones.
const Table& quantising() {
  static const Table table{{"QuantizeLinear", 3},
                           {"DynamicQuantizeLinear", 5},
                           {"com.microsoft::QuantizeLinear", 3},
                           {"com.microsoft::QLinearAdd", 5},
                           {"com.microsoft::QLinearMul", 4},
                           {"com.microsoft::QLinearSigmoid", 7},
                           {"com.microsoft::QLinearLeakyRelu", 4},
                           {"com.microsoft::QLinearSoftmax", 8},
                           {"com.microsoft::QLinearGlobalAveragePool", 1}};
  return table;
}

/// What moves data, compares it, or makes it without arithmetic.
bool only_moves(std::string_view type) {
  static const std::unordered_set<std::string_view> kTypes{"And",
                                                           "BitShift",
                                                           "BitCast",
                                                           "BitwiseAnd",
                                                           "BitwiseNot",
                                                           "BitwiseOr",
                                                           "BitwiseXor",
                                                           "Cast",
                                                           "CastLike",
                                                           "CenterCropPad",
                                                           "Col2Im",
                                                           "Compress",
                                                           "Concat",
                                                           "ConcatFromSequence",
                                                           "Constant",
                                                           "ConstantOfShape",
                                                           "DepthToSpace",
                                                           "Dropout",
                                                           "Equal",
                                                           "Expand",
                                                           "EyeLike",
                                                           "Flatten",
                                                           "Gather",
                                                           "GatherElements",
                                                           "GatherND",
                                                           "Greater",
                                                           "GreaterOrEqual",
                                                           "Identity",
                                                           "IsInf",
                                                           "IsNaN",
                                                           "Less",
                                                           "LessOrEqual",
                                                           "MaxUnpool",
                                                           "NonZero",
                                                           "Not",
                                                           "OneHot",
                                                           "Optional",
                                                           "OptionalGetElement",
                                                           "OptionalHasElement",
                                                           "Or",
                                                           "Pad",
                                                           "Reshape",
                                                           "ReverseSequence",
                                                           "SequenceAt",
                                                           "SequenceConstruct",
                                                           "SequenceEmpty",
                                                           "SequenceErase",
                                                           "SequenceInsert",
                                                           "SequenceLength",
                                                           "Shape",
                                                           "Size",
                                                           "Slice",
                                                           "SpaceToDepth",
                                                           "Split",
                                                           "SplitToSequence",
                                                           "Squeeze",
                                                           "StringConcat",
                                                           "StringNormalizer",
                                                           "StringSplit",
                                                           "TensorScatter",
                                                           "Tile",
                                                           "Transpose",
                                                           "Trilu",
                                                           "Unique",
                                                           "Unsqueeze",
                                                           "Where",
                                                           "Xor"};
  return kTypes.contains(type);
}

std::int64_t kernel_area(const nlohmann::json& attrs) {
  std::int64_t area = 1;
  if (const auto it = attrs.find("kernel_shape"); it != attrs.end() && it->is_array()) {
    for (const auto& size : *it)
      area = times(area, size.is_number_integer() ? std::max<std::int64_t>(size.get<std::int64_t>(), 0) : 1);
  }
  return area;
}

/// 2 · `base` · channels of a group · kernel area, from weights [out, in / groups, kernel…] (transposed: [in,
/// out / groups, kernel…]).
std::int64_t convolution(std::int64_t base, const OnnxShape* weight) {
  if (weight == nullptr || weight->size() < 2) return 0;
  return times(2, times(base, elements(std::span{*weight}.subspan(1))));
}

/// One cell per step, direction and row: W x + R h, and the gates' element-wise work.
std::int64_t recurrent(std::span<const OnnxShape* const> inputs, std::int64_t per_unit) {
  if (inputs.size() < 3 || inputs[0] == nullptr || inputs[1] == nullptr || inputs[2] == nullptr) return 0;
  const OnnxShape &x = *inputs[0], &w = *inputs[1], &r = *inputs[2];
  if (x.size() != 3 || r.size() != 3) return 0;
  const std::int64_t cells = times(x[0], x[1]);
  return plus(times(2, times(cells, plus(elements(w), elements(r)))),
              times(cells, times(r[0], times(r[2], per_unit))));
}

/// Twice the product of every label's size: "bij,bjk->bik" is 2 b i j k. Without labels for all (an
/// ellipsis), the output's size.
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

/// Scores and their weighted sum: 2 · batch · query heads · length · total length · (key size + value size),
/// and a softmax over the scores.
std::int64_t attention_work(std::int64_t rows, std::int64_t total, std::int64_t key_size,
                            std::int64_t value_size) {
  return times(times(rows, total), plus(5, times(2, plus(key_size, value_size))));
}

/// ONNX's own, on [batch, heads, length, size] or [batch, length, heads · size].
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

/// com.microsoft's kinds: with the projection of the input, of given Q, K and V, or with fewer K and V heads.
std::int64_t contrib_attention(std::string_view kind, std::span<const OnnxShape* const> inputs,
                               const OnnxShape& output, const nlohmann::json& attrs) {
  const auto input = [&](std::size_t k) { return k < inputs.size() ? inputs[k] : nullptr; };
  const OnnxShape* x = input(0);
  if (x == nullptr || x->size() < 3 || output.size() != 3) return 0;
  const std::int64_t heads = std::max<std::int64_t>(1, number(attrs, "num_heads", 1));
  const std::int64_t rows = times(times((*x)[0], (*x)[1]), heads), size = output[2] / heads;
  const bool own = kind == "Attention" || kind == "QAttention";
  std::int64_t total = (*x)[1], projection = 0;
  if (own && input(1) != nullptr && input(1)->size() == 2)
    projection = times(2, times(elements(*x), (*input(1))[1]));
  if (kind == "MultiHeadAttention" && input(1) != nullptr && input(1)->size() >= 3)
    total = input(1)->size() == 4 ? (*input(1))[2] : (*input(1))[1];
  if (kind == "GroupQueryAttention" && input(3) != nullptr && input(3)->size() == 4)
    total = std::max(total, (*input(3))[2]);
  return plus(projection, attention_work(rows, total, size, size));
}

/// Products of com.microsoft's domain; nothing if `kind` is none.
std::optional<std::int64_t> contrib_product(std::string_view kind, std::span<const OnnxShape* const> inputs,
                                            const OnnxShape& output, const nlohmann::json& attrs) {
  const std::int64_t n = elements(output);
  const auto last = [&](std::size_t k, bool transposed) -> std::int64_t {
    if (k >= inputs.size() || inputs[k] == nullptr || inputs[k]->empty()) return 0;
    const OnnxShape& shape = *inputs[k];
    return transposed && shape.size() > 1 ? shape[shape.size() - 2] : shape.back();
  };
  if (kind.ends_with("Attention")) {
    if (kind != "Attention" && kind != "QAttention" && kind != "MultiHeadAttention" &&
        kind != "GroupQueryAttention")
      return std::nullopt;
    return contrib_attention(kind, inputs, output, attrs);
  }
  if (kind == "MatMulNBits" || kind == "MatMulBnb4" || kind == "DynamicQuantizeMatMul" ||
      kind == "MatMulIntegerToFloat" || kind == "GemmFastGelu")
    return times(2, times(n, last(0, false)));
  if (kind == "FusedMatMul" || kind == "TransposeMatMul" || kind == "FusedGemm" || kind == "QGemm")
    return times(2, times(n, last(0, number(attrs, "transA", 0) != 0)));
  if (kind == "FusedConv") return convolution(n, inputs.size() > 1 ? inputs[1] : nullptr);
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> onnx_flops(std::string_view type, std::span<const OnnxShape* const> inputs,
                                       const OnnxShape& output, const nlohmann::json& attrs, bool floating) {
  const std::int64_t n = elements(output);
  const auto input = [&](std::size_t k) { return k < inputs.size() ? inputs[k] : nullptr; };
  const auto read = [&](std::size_t k) { return input(k) == nullptr ? 0 : elements(*input(k)); };
  const auto last_dim = [&](std::size_t k) {
    return input(k) == nullptr || input(k)->empty() ? 0 : input(k)->back();
  };
  const std::int64_t bias = input(2) != nullptr ? n : 0;
  // Products of whole numbers are work for the same units and count like the others.
  if (type == "Conv") return plus(convolution(n, input(1)), bias);
  if (type == "ConvInteger") return convolution(n, input(1));
  if (type == "QLinearConv") return convolution(n, input(3));
  if (type == "ConvTranspose") return plus(convolution(read(0), input(1)), bias);
  if (type == "MatMul" || type == "MatMulInteger" || type == "QLinearMatMul")
    return times(2, times(n, last_dim(0)));
  if (type == "Gemm") {
    if (input(0) == nullptr || input(0)->size() != 2) return 0;
    return plus(times(2, times(n, (*input(0))[number(attrs, "transA", 0) != 0 ? 0 : 1])), bias);
  }
  if (type == "LSTM") return recurrent(inputs, 34);
  if (type == "GRU") return recurrent(inputs, 25);
  if (type == "RNN") return recurrent(inputs, 7);
  if (type == "Einsum") return einsum(inputs, output, attrs);
  if (type == "Attention") return attention(inputs, attrs);
  constexpr std::string_view kContrib = "com.microsoft::";
  if (type.starts_with(kContrib))
    if (const auto work = contrib_product(type.substr(kContrib.size()), inputs, output, attrs)) return work;
  if (const auto it = quantising().find(type); it != quantising().end())
    return times(std::max(n, read(0)), it->second);
  const bool index_of_extreme = type == "ArgMax" || type == "ArgMin";
  const auto real = [&](std::int64_t work) { return floating || index_of_extreme ? work : 0; };
  if (const auto it = per_output().find(type); it != per_output().end()) return real(times(n, it->second));
  if (const auto it = per_input().find(type); it != per_input().end())
    return real(times(read(0), it->second));
  if (type.starts_with("Reduce")) return real(read(0));
  if (type == "MaxPool" || type == "AveragePool" || type == "LpPool" ||
      type == "com.microsoft::QLinearAveragePool")
    return real(times(n, kernel_area(attrs)));
  if (type == "LRN")
    return real(times(n, plus(5, std::clamp<std::int64_t>(number(attrs, "size", 1), 0, 1 << 20))));
  if (type == "Resize" || type == "Upsample")
    return real(times(n, !attrs.contains("mode") || attrs["mode"] == "nearest" ? 1 : 8));
  if (type == "Sum" || type == "Mean" || type == "Max" || type == "Min")
    return real(times(n, std::max<std::int64_t>(1, static_cast<std::int64_t>(inputs.size()) - 1)));
  if (type == "ScatterND" || type == "ScatterElements" || type == "Scatter") return real(read(2));
  if (only_moves(type)) return 0;
  return std::nullopt;
}

}  // namespace emplace

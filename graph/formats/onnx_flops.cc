#include "graph/formats/onnx_flops.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

namespace emplace {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 60;

/// Product that stops at 2^60: sizes are checked elsewhere, here nothing may overflow.
std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > kMost ? kMost : product;
}
std::int64_t plus(std::int64_t a, std::int64_t b) { return std::min(kMost, a + b); }  // Both at most 2^60.

std::int64_t elements(std::span<const std::int64_t> shape) {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) n = times(n, std::max<std::int64_t>(dim, 0));
  return n;
}

const std::unordered_map<std::string_view, std::int64_t>& per_output() {
  static const std::unordered_map<std::string_view, std::int64_t> table{{"Add", 1},
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
                                                                        {"Elu", 4},
                                                                        {"Selu", 4},
                                                                        {"Celu", 5},
                                                                        {"Softplus", 5},
                                                                        {"Softsign", 2},
                                                                        {"Gelu", 12},
                                                                        {"HardSigmoid", 3},
                                                                        {"HardSwish", 4},
                                                                        {"Mish", 9},
                                                                        {"Softmax", 5},
                                                                        {"LogSoftmax", 5},
                                                                        {"Hardmax", 2},
                                                                        {"Ceil", 1},
                                                                        {"Floor", 1},
                                                                        {"Round", 1},
                                                                        {"Sign", 1},
                                                                        {"CumSum", 1},
                                                                        {"Bernoulli", 3},
                                                                        {"RandomNormalLike", 3},
                                                                        {"RandomUniformLike", 3}};
  return table;
}
const std::unordered_map<std::string_view, std::int64_t>& per_input() {
  static const std::unordered_map<std::string_view, std::int64_t> table{{"BatchNormalization", 8},
                                                                        {"LayerNormalization", 8},
                                                                        {"InstanceNormalization", 8},
                                                                        {"GroupNormalization", 8},
                                                                        {"MeanVarianceNormalization", 6},
                                                                        {"LpNormalization", 4},
                                                                        {"GlobalAveragePool", 1},
                                                                        {"GlobalMaxPool", 1},
                                                                        {"GlobalLpPool", 4},
                                                                        {"ArgMax", 1},
                                                                        {"ArgMin", 1},
                                                                        {"TopK", 1}};
  return table;
}
constexpr std::string_view kWholeNumberReductions[] = {"ArgMax", "ArgMin"};

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

}  // namespace

std::int64_t onnx_flops(std::string_view type, std::span<const OnnxShape* const> inputs,
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
    return plus(times(2, times(n, (*input(0))[attrs.value("transA", 0) != 0 ? 0 : 1])), bias);
  }
  if (type == "LSTM") return recurrent(inputs, 34);
  if (type == "GRU") return recurrent(inputs, 25);
  if (type == "RNN") return recurrent(inputs, 7);
  if (type == "Einsum") return einsum(inputs, output, attrs);
  const bool index_of_extreme =
      std::find(std::begin(kWholeNumberReductions), std::end(kWholeNumberReductions), type) !=
      std::end(kWholeNumberReductions);
  if (!floating && !index_of_extreme) return 0;
  if (const auto it = per_output().find(type); it != per_output().end()) return times(n, it->second);
  if (const auto it = per_input().find(type); it != per_input().end()) return times(read(0), it->second);
  if (type.starts_with("Reduce")) return read(0);
  if (type == "MaxPool" || type == "AveragePool" || type == "LpPool") return times(n, kernel_area(attrs));
  if (type == "LRN")
    return times(n, plus(5, std::clamp<std::int64_t>(attrs.value("size", std::int64_t{1}), 0, 1 << 20)));
  if (type == "Resize" || type == "Upsample")
    return times(n, attrs.value("mode", std::string{"nearest"}) == "nearest" ? 1 : 8);
  if (type == "Sum" || type == "Mean" || type == "Max" || type == "Min") {
    return times(n, std::max<std::int64_t>(1, static_cast<std::int64_t>(inputs.size()) - 1));
  }
  if (type == "ScatterND" || type == "ScatterElements" || type == "Scatter") return read(2);
  return 0;
}

}  // namespace emplace

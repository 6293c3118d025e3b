#include "graph/arithmetic.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace emplace {
namespace {

using nlohmann::json;

std::optional<Float32> word_in(const json& words, const char* key) {
  const auto it = words.find(key);
  if (it == words.end() || !it->is_string()) return std::nullopt;
  for (const auto& [value, word] : enum_words(Float32{}).words)
    if (it->get_ref<const std::string&>() == word) return value;
  return std::nullopt;
}

/// The arithmetic of one operand; nothing for integers.
std::optional<Arithmetic> of_dtype(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return Arithmetic::kFp64;
    case DType::kF32:
      return Arithmetic::kFp32;
    case DType::kF16:
      return Arithmetic::kFp16;
    case DType::kBF16:
      return Arithmetic::kBf16;
    case DType::kF8:
      return Arithmetic::kFp8;
    default:
      return std::nullopt;
  }
}

bool is_byte(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

/// The format that holds the values of both; no library multiplies f16 with bf16 as they are.
Arithmetic wider(Arithmetic a, Arithmetic b) {
  if (a == b) return a;
  const bool halves = std::min(a, b) == Arithmetic::kFp16 && std::max(a, b) == Arithmetic::kBf16;
  return halves ? Arithmetic::kFp32 : std::min(a, b);
}

/// The arithmetic of a product by the formats of its factors.
Arithmetic of_factors(const OpGraph& graph, std::span<const TensorId> inputs, const OpRole& role,
                      Float32 allowed) {
  const auto dtype = [&](std::size_t k) { return graph.dtype(inputs[std::min(k, inputs.size() - 1)]); };
  const DType a = dtype(role.first), b = dtype(role.second);
  const auto first = of_dtype(a), second = of_dtype(b);
  if (!first && !second) return is_byte(a) && is_byte(b) ? Arithmetic::kInt8 : Arithmetic::kFp32;
  const Arithmetic both = wider(first.value_or(*second), second.value_or(*first));
  return both == Arithmetic::kFp32 && allowed == Float32::kTf32 ? Arithmetic::kTf32 : both;
}

/// Whether quantised weights have eight bits, not four.
bool states_eight_bits(std::string_view attrs) {
  return attrs.find("\"bits\":8") != std::string_view::npos ||
         attrs.find("weight_bits\":8") != std::string_view::npos;
}

}  // namespace

Framework framework_of(const OpGraph& graph) {
  for (std::size_t k = 0; k < graph.num_types(); ++k)
    if (graph.type_name(TypeId{static_cast<std::uint16_t>(k)}).starts_with("aten::"))
      return Framework::kPyTorch;
  if (graph.source().starts_with("onnx")) return Framework::kOnnxRuntime;
  if (graph.source().starts_with("hlo")) return Framework::kXla;
  const bool tensorflow = graph.source().starts_with("tensorflow") ||
                          graph.meta_json().find(R"("granularity":"tensorflow")") != std::string::npos;
  return tensorflow ? Framework::kTensorFlow : Framework::kPyTorch;
}

Float32Use float32_use(const OpGraph& graph) {
  Float32Use use;
  if (framework_of(graph) != Framework::kPyTorch) use.products = Float32::kTf32;
  if (graph.meta_json().find("\"float32\"") == std::string::npos) return use;
  const json meta = json::parse(graph.meta_json(), nullptr, /*allow_exceptions=*/false);
  if (!meta.is_object() || !meta.contains("float32") || !meta["float32"].is_object()) return use;
  use.products = word_in(meta["float32"], "products").value_or(use.products);
  use.convolutions = word_in(meta["float32"], "convolutions").value_or(use.convolutions);
  return use;
}

Arithmetic arithmetic_of(const OpGraph& graph, OpId op, const OpRole& role, Float32Use use) {
  const auto inputs = graph.inputs(op);
  if (role.product && !inputs.empty()) {
    if (role.format == FactorFormat::kInt8) return Arithmetic::kInt8;
    if (role.format == FactorFormat::kFp8) return Arithmetic::kFp8;
    const Arithmetic arithmetic =
        of_factors(graph, inputs, role, role.convolves ? use.convolutions : use.products);
    const bool half = arithmetic == Arithmetic::kFp16 || arithmetic == Arithmetic::kBf16;
    const bool packed = role.format == FactorFormat::kW4 && !states_eight_bits(graph.attrs_json(op));
    return half && packed ? Arithmetic::kW4 : arithmetic;
  }
  for (const TensorId input : inputs)
    if (const auto one = of_dtype(graph.dtype(input))) return *one;
  for (std::size_t k = 0; k < graph.num_outputs(op); ++k)
    if (const auto one = of_dtype(graph.dtype(graph.output(op, k)))) return *one;
  return Arithmetic::kFp32;
}

}  // namespace emplace

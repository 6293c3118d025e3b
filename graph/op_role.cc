#include "graph/op_role.h"

#include <algorithm>
#include <array>
#include <utility>

namespace emplace {
namespace {

/// Inputs that a formula multiplies. Only vocabularies where they are not inputs 0 and 1 are named.
std::pair<std::uint8_t, std::uint8_t> factors(Vocabulary vocabulary, std::string_view name,
                                              const WorkRule& rule) {
  const auto behind = [](std::uint8_t k) { return static_cast<std::uint8_t>(k + 1); };
  const bool torch = vocabulary == Vocabulary::kAten, tensorflow = vocabulary == Vocabulary::kTensorFlow;
  switch (rule.formula) {
    case Formula::kMatrixProductPlus:  // The addend of addmm is first, that of Gemm last.
    case Formula::kBatchProductPlus:
    case Formula::kMatrixVectorPlus:
      return torch ? std::pair<std::uint8_t, std::uint8_t>{1, 2}
                   : std::pair<std::uint8_t, std::uint8_t>{0, 1};
    case Formula::kBilinear:
    case Formula::kMixture:
      return {0, 2};
    case Formula::kDistances:
      return {rule.input, behind(rule.input)};
    case Formula::kQuantisedConvolution:
      return {0, 3};
    case Formula::kConvolutionGradients:
      return {1, 2};
    case Formula::kConvolutionInputGradient:
    case Formula::kDepthwiseInputGradient:
      return tensorflow ? std::pair<std::uint8_t, std::uint8_t>{2, 1}
                        : std::pair<std::uint8_t, std::uint8_t>{0, 1};
    case Formula::kConvolutionFilterGradient:
    case Formula::kDepthwiseFilterGradient:
      return tensorflow ? std::pair<std::uint8_t, std::uint8_t>{0, 2}
                        : std::pair<std::uint8_t, std::uint8_t>{0, 1};
    case Formula::kTimeConvolution:
      return {0, rule.input};
    case Formula::kTimeConvolutionGradients:
      return {1, rule.input};
    case Formula::kAttention:
    case Formula::kAttentionGradient:
      return torch ? std::pair{rule.input, behind(rule.input)} : std::pair<std::uint8_t, std::uint8_t>{0, 1};
    case Formula::kContraction:
    case Formula::kTransposableContraction:
      return {0, name == "QLinearMatMul" || name == "com.microsoft::QGemm" ? 3 : 1};
    default:
      return {0, 1};
  }
}

bool is_product(const WorkRule& rule) {
  // The formulas of products and attention follow one another in the enum.
  return (rule.formula >= Formula::kMatrixProduct && rule.formula <= Formula::kSharedProducts &&
          rule.formula != Formula::kGatheredSum);
}

FactorFormat format_of(std::string_view name) {
  const auto is_one_of = [&](auto... names) { return ((name == names) || ...); };
  if (is_one_of("_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu",
                "_weight_int4pack_mm_with_scales_and_zeros", "_dyn_quant_matmul_4bit",
                "com.microsoft::MatMulNBits", "com.microsoft::MatMulBnb4", "com.microsoft::MatMulFpQ4",
                "com.microsoft::MatMulBlockQuantizedFp4Weight", "com.microsoft::MatMulNBitsMlp",
                "com.microsoft::MatMulNBitsQkv", "com.microsoft::MatMulNBitsQLoRA", "com.microsoft::QMoE"))
    return FactorFormat::kW4;
  if (is_one_of("_int_mm", "MatMulInteger", "QLinearMatMul", "com.microsoft::DynamicQuantizeMatMul",
                "com.microsoft::MatMulIntegerToFloat", "com.microsoft::QGemm",
                "com.microsoft::QOrderedMatMul", "com.microsoft::QAttention",
                "com.microsoft::QOrderedAttention", "ConvInteger", "QLinearConv",
                "com.microsoft::QLinearConv", "com.microsoft::DynamicQuantizeLSTM"))
    return FactorFormat::kInt8;
  // The factors of scaled products may be of four bits, which are stored two in a byte. They count as eight.
  if (name.starts_with("_scaled_mm") || name.starts_with("_scaled_grouped_mm") ||
      is_one_of("com.microsoft::GemmFloat8", "scaled-dot", "custom-call:__cublas$lt$matmul$f8",
                "custom-call:__cublas$lt$matmul$mx", "custom-call:__cudnn$blockScaledDot",
                "custom-call:__cudnn$fmhaSoftmaxF8", "custom-call:__cudnn$fmhaSoftmaxBackwardF8"))
    return FactorFormat::kFp8;
  return FactorFormat::kOfFactors;
}

/// cuDNN runs convolutions, and PyTorch's recurrent layers under the same switch; torch's cells are products.
///   https://docs.pytorch.org/docs/stable/notes/cuda.html (torch.backends.cudnn.rnn.fp32_precision)
bool is_of_cudnn(const OpKind& kind) {
  switch (kind.work.formula) {
    case Formula::kRecurrent:
    case Formula::kRecurrentGradients:
      return !kind.name.ends_with("_cell");
    default:
      return (kind.op_class == OpClass::kConv || kind.op_class == OpClass::kConvGrouped ||
              kind.name.find("conv") != std::string_view::npos) &&
             kind.work.formula != Formula::kBody && kind.work.formula != Formula::kBodyPerTrip;
  }
}

}  // namespace

OpRole role_of_type(std::string_view type) {
  OpRole role;
  const auto look = [&](Vocabulary vocabulary, std::string_view name) {
    if (role.kind != nullptr) return;
    role.kind = find_kind(vocabulary, name);
    role.vocabulary = vocabulary;
  };
  const std::size_t colon = type.rfind("::");
  const std::string_view base = colon == std::string_view::npos ? type : type.substr(colon + 2);
  if (type.starts_with("hlo::")) {
    look(Vocabulary::kHlo, type.substr(5));
  } else if (type.starts_with("com.microsoft") || type.starts_with("ai.onnx")) {
    look(Vocabulary::kOnnx, type);
  } else if (colon != std::string_view::npos) {
    look(Vocabulary::kAten, base.starts_with("_foreach_") ? base.substr(9) : base);
  } else {
    look(Vocabulary::kGraph, type);
    look(Vocabulary::kOnnx, type);
    look(Vocabulary::kTensorFlow, type);
  }
  if (role.kind == nullptr) return role;
  // XLA's computations with a product: "fusion_dot".
  const bool runs = role.vocabulary == Vocabulary::kHlo &&
                    (role.kind->op_class == OpClass::kMatmul || role.kind->op_class == OpClass::kConv);
  role.product = runs || is_product(role.kind->work);
  if (!role.product) return role;
  const bool named = role.vocabulary == Vocabulary::kAten;
  role.format = format_of(named ? base : type.starts_with("hlo::") ? type.substr(5) : type);
  std::tie(role.first, role.second) = factors(role.vocabulary, role.kind->name, role.kind->work);
  role.convolves = is_of_cudnn(*role.kind);
  return role;
}

}  // namespace emplace

#pragma once
/// The meaning of op types, in one table for all vocabularies: cost class, whether it is a view or state, and
/// the formula of its work. Used by readers, generators and the cost model; a new type is one word in
/// op_kind.cc.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "graph/capped.h"

namespace emplace {

/// Cost classes: they determine the fraction of a device's peak rates that an op reaches
/// (Profile::efficiency).
enum class OpClass : std::uint8_t {
  kState,
  kView,
  kMatmul,
  kConv,
  kConvGrouped,
  kNorm,
  kReduce,
  kGather,
  kElementwise
};
inline constexpr std::size_t kNumOpClasses = 9;
/// The name in machine files: "matmul", "conv_grouped", …
std::string_view op_class_name(OpClass op_class);

/// Kinds of memory that exist before a step; the names of the state types of graphs.
enum class StateKind : std::uint8_t { kNone, kParameter, kBuffer, kOptimizerState, kInput, kConstant };

/// The origin of a type. A type name is unique within its vocabulary.
enum class Vocabulary : std::uint8_t {
  kGraph,       ///< State types of every graph: "Parameter".
  kAten,        ///< Torch types without the namespace: "mm" of "aten::mm".
  kOnnx,        ///< ONNX types; with the domain if it is not ONNX's: "Conv", "com.microsoft::QGemm".
  kTensorFlow,  ///< TensorFlow types: "Conv2D".
  kHlo          ///< XLA opcodes without the namespace: "dot"; "custom-call:TARGET" for a custom call.
};

/// Formulas of floating-point work. Formulas that need more than element counts are computed next to their
/// vocabulary: graph/formats/{torch/aten_flops, onnx/onnx_flops, tensorflow/tf_flops, hlo/hlo_work}.cc.
enum class Formula : std::uint8_t {
  kUnknown,     ///< No rule: the reader reports the type as uncounted.
  kNone,        ///< No floating-point work: data movement, comparison, creation, control flow.
  kEachOutput,  ///< `amount` per element of the first output.
  kEachInput,   ///< `amount` per element of input `input`.
  kEachLarger,  ///< `amount` per element of the first input or output, whichever has more.
  kTerms,       ///< 1 per element of the output and input other than the first.
  kScaledSum,   ///< 1 per element of the output, 2 with the attribute alpha.

  kWindow,         ///< Kernel area per element of the output.
  kWindowOfInput,  ///< Kernel area per element of input `input`.
  kLocalResponse,  ///< LRN: size + 5 per element of the output.
  kResize,         ///< 1 per element of the output, 8 with interpolation.

  // Products, convolutions and attention: up to kSharedProducts, but for kGatheredSum (role_of_type).
  kMatrixProduct,             ///< [m, k] [k, n]: 2 m k n.
  kMatrixProductPlus,         ///< kMatrixProduct and a bias.
  kBatchProduct,              ///< [b, m, k] [b, k, n]: 2 b m k n.
  kBatchProductPlus,          ///< kBatchProduct and an addend.
  kMatrixVectorPlus,          ///< An addend and [m, k] [k]: 2 m k + m.
  kContraction,               ///< 2 · outputs · contracted sizes of the first input.
  kRaggedContraction,         ///< kContraction; divided by the groups if they part the contracted dimension.
  kContractionInConfig,       ///< kRaggedContraction of a custom call, and its epilogue.
  kTransposableContraction,   ///< kContraction with the attribute transA.
  kLinear,                    ///< 2 · outputs · input features, and a bias.
  kProductGradients,          ///< Gradients of both factors; the gradient of the product is input `input`.
  kGroupedProduct,            ///< `amount` products of rows with the matrix of their group: experts.
  kTensordot,                 ///< 2 · outputs · sizes of the contracted axes of the first input.
  kBilinear,                  ///< 2 · rows · elements of the weights (input 2).
  kTrilinear,                 ///< 2 · product of all sizes to which three expanded inputs broadcast.
  kDistances,                 ///< `amount` · pairs of rows · width; the rows are input `input`.
  kEinsum,                    ///< 2 · product of all label sizes.
  kConvolution,               ///< 2 · outputs · input channels per group · kernel area, and a bias.
  kBareConvolution,           ///< kConvolution without a bias after the weights.
  kQuantisedConvolution,      ///< kConvolution with the weights in input 3.
  kTransposedConvolution,     ///< 2 · inputs · output channels per group · kernel area, and a bias.
  kConvolutionGradients,      ///< Gradients of input, weights and bias, as requested by the output mask.
  kConvolutionInputGradient,  ///< 2 · output gradients · input channels · kernel area.
  kConvolutionFilterGradient,
  kTimeConvolution,  ///< kConvolution of weights [kernel, in, out], which are input `input`.
  kTimeConvolutionGradients,
  kDepthwise,  ///< 2 · outputs · kernel area.
  kDepthwiseInputGradient,
  kDepthwiseFilterGradient,
  kLstmCell,            ///< 2 · products of all gates, and 34 per element of a state.
  kGruCell,             ///< As kLstmCell.
  kRecurrent,           ///< 2 · products of all gates and steps, and `amount` per unit.
  kRecurrentGradients,  ///< Twice kRecurrent.
  kAttention,           ///< Two products and a softmax; the query is input `input`.
  kAttentionGradient,   ///< Five products; the query is input `input`.
  kEncoderLayer,        ///< Products with all weights, and kAttention of the first input with itself.
  kGatheredSum,         ///< 1 per element of the rows that are gathered and added.
  kProjectedAttention,  ///< kAttention and the projection to Q, K and V.
  kMultiHeadAttention,  ///< Attention of given Q, K and V, as [batch, length, heads · size].
  kGroupedAttention,    ///< kMultiHeadAttention with fewer heads of K and V, and a cache of earlier steps.
  kPagedAttention,      ///< kGroupedAttention of packed tokens over blocks of a cache.
  kLinearAttention,     ///< Updates and reads of one state [key size, value size] per head and token.
  kFusedAttention,      ///< kAttention whose config states the scores.
  kFusedAttentionGradient,  ///< kAttentionGradient whose config states the scores.

  kMixture,         ///< The experts that each token chooses; their weights are each `amount`-th input from 2.
  kSharedProducts,  ///< Several products of one input, whose sizes are attributes.

  kFactorisation,    ///< `amount` · k² (3 l - k) / 6 of each matrix with the sizes k <= l.
  kTriangularSolve,  ///< Rows of the triangle per element of the right-hand side.
  kFourier,          ///< 5 · log2 (length) per complex element, half of it for real data.

  kBody,                 ///< Work of the computations that the op runs.
  kBodyPerTrip,          ///< kBody per loop iteration.
  kBodyPerReduced,       ///< kBody per element that a reduction combines with another.
  kBodyPerOutput,        ///< kBody per element of the output.
  kBodyPerUpdate,        ///< kBody per element of the last input.
  kBodyPerWindow,        ///< kBody per element of the output and of the window.
  kBodyPerWindowOfInput  ///< kBody per element of the first input and of the window.
};

/// Refers to an op's last input in WorkRule::input.
inline constexpr std::uint8_t kLastInput = 255;

/// Element-wise work per unit and step of recurrent networks.
inline constexpr std::uint8_t kLstmUnit = 34, kGruUnit = 25, kRnnUnit = 7;

struct WorkRule {
  Formula formula = Formula::kUnknown;
  std::uint8_t amount = 1;  ///< Attention's axis of the length, from the last one; the width is 0.
  std::uint8_t input = 0;   ///< Input of kEachInput and kWindowOfInput, and of formulas that name it.
  /// Whether integer work counts too, as for products, which use the same units.
  bool whole_numbers = false;
};

struct OpKind {
  std::string_view name;
  OpClass op_class = OpClass::kElementwise;
  WorkRule work;
  bool view = false;  ///< Whether output 0 is input 0's data in another form, or there is no data.
  StateKind state = StateKind::kNone;
};

/// Finds a kind by name, or by the pattern that matches it; null if there is none. The result is static. Any
/// thread.
const OpKind* find_kind(Vocabulary vocabulary, std::string_view name);

/// The class of a graph's op type ("aten::mm", "Conv", "hlo::dot", "Parameter"); kElementwise if unknown. An
/// individual op may still be a view or a special case.
OpClass class_of_type(std::string_view type);

/// Names of a vocabulary in table order, patterns (with a '*') last.
std::span<const OpKind> kinds_of(Vocabulary vocabulary);

/// Work by formulas that need only element counts, at most 2^60; nothing for other formulas.
///   output  elements of the first output
///   input   function (std::size_t) → elements of that input, 0 if absent
template <class Input>
std::optional<std::int64_t> work_of_elements(const WorkRule& rule, std::int64_t output,
                                             std::size_t num_inputs, Input input) {
  const auto read = [&](std::size_t k) { return k < num_inputs ? input(k) : 0; };
  switch (rule.formula) {
    case Formula::kNone:
      return 0;
    case Formula::kEachOutput:
      return capped::times(output, rule.amount);
    case Formula::kEachInput:
      return capped::times(read(rule.input == kLastInput ? num_inputs - 1 : rule.input), rule.amount);
    case Formula::kEachLarger:
      return capped::times(std::max(output, read(0)), rule.amount);
    case Formula::kTerms:
      return capped::times(output, std::max<std::int64_t>(1, static_cast<std::int64_t>(num_inputs) - 1));
    default:
      return std::nullopt;
  }
}

}  // namespace emplace

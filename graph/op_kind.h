#pragma once
/// What the type of an op means, in one table for all vocabularies: its class of cost, whether it is a view
/// or state, and by which formula its work follows from its shapes. Readers, generators and the cost model
/// ask here; a new type is one word in op_kind.cc.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "graph/capped.h"

namespace emplace {

/// Classes of cost: how much of a device's peak rates an op reaches (Profile::efficiency).
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
/// As machine files name it: "matmul", "conv_grouped", …
std::string_view op_class_name(OpClass op_class);

/// Memory that a graph begins with. The names of a graph's state types.
enum class StateKind : std::uint8_t { kNone, kParameter, kBuffer, kOptimizerState, kInput, kConstant };

/// Where a type is from. The name of a type is unique in its vocabulary.
enum class Vocabulary : std::uint8_t {
  kGraph,       ///< The state types of every graph: "Parameter".
  kAten,        ///< torch, without the namespace: "mm" of "aten::mm".
  kOnnx,        ///< ONNX, other domains with theirs: "Conv", "com.microsoft::QGemm".
  kTensorFlow,  ///< "Conv2D".
  kHlo          ///< XLA, without the namespace: "dot"; "custom-call:TARGET" of a custom call.
};

/// How floating-point work follows from shapes. What needs more than sizes is computed beside its vocabulary:
/// graph/formats/{torch/aten_flops, onnx/onnx_flops, tensorflow/tf_flops, hlo/hlo_work}.cc.
enum class Formula : std::uint8_t {
  kUnknown,     ///< No rule: the reader reports the type as uncounted.
  kNone,        ///< Moves, compares, makes or steers: no floating-point work.
  kEachOutput,  ///< `amount` for each element of the first output.
  kEachInput,   ///< `amount` for each element of input `input`.
  kEachLarger,  ///< `amount` for each element of the first input or output, whichever has more.
  kTerms,       ///< One for each element of the output and each input but the first.
  kScaledSum,   ///< One for each element of the output, two with the attribute alpha.

  kWindow,         ///< The area of the kernel for each element of the output.
  kWindowOfInput,  ///< The same for each element of input `input`.
  kLocalResponse,  ///< LRN: its size, and 5, for each element of the output.
  kResize,         ///< 1 for each element of the output, 8 with interpolation.

  kMatrixProduct,             ///< [m, k] [k, n]: 2 m k n.
  kMatrixProductPlus,         ///< The same, and a bias.
  kBatchProduct,              ///< [b, m, k] [b, k, n]: 2 b m k n.
  kBatchProductPlus,          ///< The same, and an addend.
  kContraction,               ///< 2 · outputs · contracted sizes of the first input.
  kTransposableContraction,   ///< The same with the attribute transA.
  kLinear,                    ///< 2 · outputs · input features, and a bias.
  kEinsum,                    ///< 2 · the sizes of all labels.
  kConvolution,               ///< 2 · outputs · input channels of a group · kernel area, and a bias.
  kBareConvolution,           ///< The same; what follows the weights is no bias.
  kQuantisedConvolution,      ///< The same; the weights are input 3.
  kTransposedConvolution,     ///< 2 · inputs · output channels of a group · kernel area, and a bias.
  kConvolutionGradients,      ///< Of input, weights and bias, as far as they are asked for.
  kConvolutionInputGradient,  ///< 2 · gradients of outputs · input channels · kernel area.
  kConvolutionFilterGradient,
  kDepthwise,  ///< 2 · outputs · kernel area.
  kDepthwiseInputGradient,
  kDepthwiseFilterGradient,
  kLstmCell,            ///< 2 · products of all gates, and 34 for each element of a state.
  kGruCell,             ///< The same.
  kRecurrent,           ///< 2 · products of all gates and steps, and `amount` for each unit.
  kAttention,           ///< Two products and a softmax.
  kAttentionGradient,   ///< Five products.
  kProjectedAttention,  ///< As kAttention, with the product that makes Q, K and V.
  kMultiHeadAttention,  ///< Of given Q, K and V, as [batch, length, heads · size].
  kGroupedAttention,    ///< The same with fewer heads of K and V, and those of earlier steps.

  kBody,                 ///< The work of the computations that the op runs.
  kBodyPerTrip,          ///< … for each trip of a loop.
  kBodyPerReduced,       ///< … for each element that a reduction joins to another.
  kBodyPerOutput,        ///< … for each element of the output.
  kBodyPerUpdate,        ///< … for each element of the last input.
  kBodyPerWindow,        ///< … for each element of the output and of the window.
  kBodyPerWindowOfInput  ///< … for each element of the first input and of the window.
};

/// Stands for the last of an op's inputs in WorkRule::input.
inline constexpr std::uint8_t kLastInput = 255;

struct WorkRule {
  Formula formula = Formula::kUnknown;
  std::uint8_t amount = 1;
  std::uint8_t input = 0;      ///< Of kEachInput and kWindowOfInput.
  bool whole_numbers = false;  ///< Counts work on whole numbers too, as that of products: same units.
};

struct OpKind {
  std::string_view name;
  OpClass op_class = OpClass::kElementwise;
  WorkRule work;
  bool view = false;  ///< The first output shows the first input's data, or there are no data.
  StateKind state = StateKind::kNone;
};

/// The kind of that name in a vocabulary, or of the pattern that it matches; null if the table has neither.
/// Any thread. The table lives as long as the program.
const OpKind* find_kind(Vocabulary vocabulary, std::string_view name);

/// The class of an op of a graph by its type ("aten::mm", "Conv", "hlo::dot", "Parameter"): the op may be a
/// view or a special case all the same. kElementwise if the table does not have it.
OpClass class_of_type(std::string_view type);
/// Of the types of state in a graph: Parameter, Buffer, OptimizerState, Input and Constant own memory and
/// take no time. kNone for all others.
StateKind state_kind(std::string_view type);
inline bool is_state_type(std::string_view type) { return state_kind(type) != StateKind::kNone; }

/// Names of a vocabulary in the order of the table, patterns (with a '*') last.
std::span<const OpKind> kinds_of(Vocabulary vocabulary);

/// Work by the formulas that need numbers of elements alone; nothing for the others. At most 2^60.
///   output  elements of the first output
///   input   (std::size_t) → elements of that input, 0 if it is not there
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

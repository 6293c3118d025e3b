#pragma once
/// How shapes of single ONNX ops follow from their inputs: the rules behind onnx_infer.h, by family.

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "graph/formats/broadcast.h"
#include "graph/formats/onnx/onnx_infer.h"

namespace emplace::onnx_io {

inline constexpr std::int64_t kLargestDim = std::int64_t{1} << 40;

/// One row of a family's table.
struct RuleRow {
  std::string_view kind;
  std::size_t inputs;
  ShapeRule rule;
};

std::span<const RuleRow> elementwise_rules();
std::span<const RuleRow> product_rules();  ///< Matrix products, recurrences, attention.
std::span<const RuleRow> window_rules();   ///< Convolutions, pooling, images.
std::span<const RuleRow> layout_rules();   ///< Reshapes, slices, gathers, reductions.

using emplace::broadcast;
/// A product of matrices of dimensions before the last two, which broadcast; 1-D operands as numpy has them.
std::optional<Shape> matrix_product(Shape a, Shape b);

// Rules that several families share.
void same_as_first(Inference& op);  ///< Every output: shape and element type of input 0.
void broadcast_all(Inference& op);  ///< Output 0: all inputs broadcast, element type of input 0.

}  // namespace emplace::onnx_io

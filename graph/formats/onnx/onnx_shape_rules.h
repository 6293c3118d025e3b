#pragma once
/// Shape rules of single ONNX ops, by family; onnx_infer.h applies them.

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "graph/broadcast.h"
#include "graph/formats/onnx/onnx_infer.h"

namespace emplace::onnx_io {

inline constexpr std::int64_t kLargestDim = std::int64_t{1} << 40;

/// One row of a family's table of rules.
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
/// Shape of a matrix product; dimensions before the last two broadcast, 1-D operands follow numpy.
std::optional<Shape> matrix_product(Shape a, Shape b);

// Rules shared by several families.
void same_as_first(Inference& op);  ///< Gives every output the shape and element type of input 0.
/// Gives output 0 the broadcast shape of all inputs and the element type of input 0.
void broadcast_all(Inference& op);

}  // namespace emplace::onnx_io

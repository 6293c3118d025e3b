#pragma once
/// Arithmetic on shapes for the readers that infer them. Shapes that do not fit give nothing. Pure; any
/// thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace emplace {

using Shape = std::vector<std::int64_t>;
using MaybeShape = std::optional<Shape>;

/// Normalises an axis of `rank` dimensions; negative ones count from the end. Returns nothing if out of
/// range.
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);
/// [rank] Whether each dimension is among `axes`.
std::optional<std::vector<bool>> marked_axes(std::span<const std::int64_t> axes, std::size_t rank);

/// Broadcasts element-wise operands as in numpy, ONNX and TensorFlow: shapes are aligned at their last
/// dimensions, and a dimension of 1 stretches.
MaybeShape broadcast(const Shape& a, const Shape& b);
/// Shape of a matrix product; dimensions before the last two broadcast, 1-D operands follow numpy.
MaybeShape matrix_product(Shape a, Shape b);
/// Removes the dimensions `axes`, or with `keep` sets them to 1.
MaybeShape without_axes(const Shape& shape, std::span<const std::int64_t> axes, bool keep);
/// The axes of size 1, which a squeeze without axes removes.
std::vector<std::int64_t> axes_of_one(const Shape& shape);
/// Adds a dimension of `size`, which becomes axis `along` of the result.
MaybeShape with_axis(Shape shape, std::int64_t along, std::int64_t size);
/// Permutes dimensions: dimension k of the result is `axes[k]`.
MaybeShape transposed(const Shape& shape, std::span<const std::int64_t> axes);
/// Repeats dimension k `times[k]` times.
MaybeShape tiled(Shape shape, std::span<const std::int64_t> times);
/// Takes entries of axis `along` by indices of shape `indices`.
MaybeShape gathered(Shape shape, std::int64_t along, const Shape& indices);
/// Takes parts by indices [.., n], each of which names the n dimensions after the first `batch`.
MaybeShape gathered_parts(const Shape& shape, const Shape& indices, std::int64_t batch = 0);
/// How many of start, start + delta, … lie before `limit`; nothing if delta is 0 or the span overflows.
std::optional<std::int64_t> steps_between(std::int64_t start, std::int64_t limit, std::int64_t delta);

/// Sizes in an einsum; "..." stands for dimensions that broadcast. Without "->" the result has the labels
/// that occur once, in alphabetical order.
struct EinsumSizes {
  Shape result;
  std::int64_t all = 1;  ///< Product of all label sizes, at most 2^60.
};
std::optional<EinsumSizes> einsum(std::string_view equation, std::span<const Shape> inputs);

}  // namespace emplace

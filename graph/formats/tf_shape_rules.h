#pragma once
/// How the shapes of single ops follow from their inputs: the rules behind infer_shapes.

#include "graph/formats/tf_shapes.h"

namespace emplace::tf {

inline constexpr std::int64_t kMostSize = std::int64_t{1} << 40;  ///< Of a dimension.

/// One op with what is known of its inputs. Each rule returns nothing if something does not fit.
struct Op {
  const NodeDef& node;
  std::span<const Shape> inputs;
  std::span<const Value> values;

  /// Attributes; what is not there is `otherwise`, false or empty.
  std::int64_t whole(std::string_view name, std::int64_t otherwise) const;
  bool flag(std::string_view name) const;
  std::vector<std::int64_t> list(std::string_view name) const;
  std::string_view text(std::string_view name) const;
};

using MaybeShape = std::optional<Shape>;

/// "axis" of `rank` dimensions, counted from the end if it is negative; nothing if it is out of range.
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);
MaybeShape broadcast(const Shape& a, const Shape& b);
MaybeShape matmul(const Op& op);
/// Of windows over [batch, height, width, channels] or, by `data_format`, [batch, channels, height, width].
MaybeShape windows(const Op& op, std::int64_t height, std::int64_t width, std::int64_t channels);
MaybeShape convolution(const Op& op);
MaybeShape pool(const Op& op);
/// Without the dimensions `axes`, or with 1 in their place.
MaybeShape without(const Shape& shape, std::span<const std::int64_t> axes, bool keep);
MaybeShape reduce(const Op& op);
MaybeShape squeeze(const Op& op);
MaybeShape reshape(const Op& op);
/// Inputs [from, to) one behind the other along `axis`.
MaybeShape concat(const Op& op, std::size_t from, std::size_t to, std::int64_t along);
MaybeShape insert(Shape shape, std::int64_t along, std::int64_t size);
MaybeShape pad(const Op& op);
MaybeShape transpose(const Op& op);
MaybeShape gather(const Op& op);
MaybeShape resize(const Op& op);

}  // namespace emplace::tf

#pragma once
/// Shape rules of single ops; infer_shapes applies them.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/broadcast.h"
#include "graph/formats/tensorflow/tf_shapes.h"

namespace emplace::tf {

inline constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;  ///< Largest dimension.

/// One op with what is known about its inputs. Rules return nothing if inputs are incompatible.
struct Op {
  const NodeDef& node;
  std::span<const Shape> inputs;
  std::span<const Value> values;

  /// Attributes; a missing one is `otherwise`, false or empty.
  std::int64_t whole(std::string_view name, std::int64_t otherwise) const;
  bool flag(std::string_view name) const;
  std::vector<std::int64_t> list(std::string_view name) const;
  std::string_view text(std::string_view name) const;
};

using MaybeShape = std::optional<Shape>;

/// A shape rule for an op type with one output and a minimum number of inputs.
struct NamedRule {
  std::string_view type;
  std::size_t inputs;
  MaybeShape (*rule)(const Op& op);
};
/// Rules shared by several tables: the shape is that of input k, the contents of input k, or scalar.
template <std::size_t k>
MaybeShape as_input(const Op& op) {
  return op.inputs[k];
}
template <std::size_t k>
MaybeShape contents_of(const Op& op) {
  return op.values[k];
}
inline MaybeShape scalar(const Op&) { return Shape{}; }

std::span<const NamedRule> gradient_rules();  ///< Gradients, losses, optimisers.
std::span<const NamedRule> slice_rules();     ///< Pieces, repetitions, products by a formula, random numbers.
std::span<const NamedRule> list_rules();      ///< Tensor lists, tensor arrays, stacks.
/// Shapes of ops with several outputs.
std::optional<Inferred> several_outputs(const Op& op);
/// Output contents, as far as shape arithmetic is supported.
std::vector<Value> values_of(const Op& op, std::span<const Shape> outputs);
/// One output dimension of a StridedSlice: its start, its input dimension, its size; nothing for unknown
/// numbers. The rule returns nothing at all if the slice is invalid.
struct Slice {
  std::optional<std::int64_t> begin;
  std::int64_t size = 0, stride = 1;
  bool gone = false, fresh = false;  ///< Removed; added by new_axis_mask.
};
std::optional<std::vector<Slice>> strided_slice(const Op& op);
/// The result shape of an Einsum and the product of its label sizes; empty if the inputs do not match the
/// equation.
struct EinsumSizes {
  Shape result;
  std::int64_t all = 1;  ///< Product of all label sizes, at most 2^60.
};
std::optional<EinsumSizes> einsum(std::string_view equation, std::span<const Shape> inputs);

/// Normalises an axis of `rank` dimensions; negative ones count from the end. Returns nothing if out of
/// range.
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);
using emplace::broadcast;
MaybeShape matmul(const Op& op);
/// Shape of windows over [batch, height, width, channels], or by `data_format` [batch, channels, height,
/// width].
MaybeShape windows(const Op& op, std::int64_t height, std::int64_t width, std::int64_t channels);
MaybeShape convolution(const Op& op);
MaybeShape pool(const Op& op);
/// Removes the dimensions `axes`, or with `keep` sets them to 1.
MaybeShape without(const Shape& shape, std::span<const std::int64_t> axes, bool keep);
MaybeShape reduce(const Op& op);
MaybeShape squeeze(const Op& op);
MaybeShape reshape(const Op& op);
/// Concatenates inputs [from, to) along axis `along`.
MaybeShape concat(const Op& op, std::size_t from, std::size_t to, std::int64_t along);
MaybeShape insert(Shape shape, std::int64_t along, std::int64_t size);
MaybeShape pad(const Op& op);
MaybeShape transpose(const Op& op);
MaybeShape gather(const Op& op);
MaybeShape resize(const Op& op);

}  // namespace emplace::tf

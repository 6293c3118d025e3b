#pragma once
/// Shape rules of single ops; infer_shapes applies them.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/formats/reading/shape_arithmetic.h"
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
  /// The content of input `k` if it is known and one number.
  std::optional<std::int64_t> number(std::size_t k) const;
  /// The shape in attribute `name`; nothing if it is absent or has an open dimension.
  MaybeShape shape(std::string_view name) const;
};

/// A shape rule for op types with one output and a minimum number of inputs.
struct NamedRule {
  std::string_view types;  ///< Separated by spaces.
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

/// Element-wise ops, products, windows, layouts, gradients, losses, optimisers.
std::span<const NamedRule> common_rules();
std::span<const NamedRule> slice_rules();  ///< Pieces, repetitions, products by a formula, random numbers.
std::span<const NamedRule> list_rules();   ///< Tensor lists, tensor arrays, stacks.
/// Shapes of ops with several outputs.
std::optional<Inferred> several_outputs(const Op& op);
/// The axes over which the gradient of an operand of shape `mine` is summed when it was broadcast with
/// `other`: axes where its dimension is 1 and the other's is not, and axes that it lacks.
std::vector<std::int64_t> summed_axes(const Shape& mine, const Shape& other);
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

}  // namespace emplace::tf

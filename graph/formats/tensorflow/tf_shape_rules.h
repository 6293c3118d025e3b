#pragma once
/// How the shapes of single ops follow from their inputs: the rules behind infer_shapes.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/formats/broadcast.h"
#include "graph/formats/tensorflow/tf_shapes.h"

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

/// The shape of the one output of an op of a type, given at least so many inputs.
struct NamedRule {
  std::string_view type;
  std::size_t inputs;
  MaybeShape (*rule)(const Op& op);
};
/// Rules that several tables use: the shape is what input k contains, or that of a scalar.
template <std::size_t k>
MaybeShape contents_of(const Op& op) {
  return op.values[k];
}
inline MaybeShape scalar(const Op&) { return Shape{}; }

std::span<const NamedRule> gradient_rules();  ///< Gradients, losses, optimisers.
std::span<const NamedRule> slice_rules();     ///< Pieces, repetitions, products by a formula, random numbers.
std::span<const NamedRule> list_rules();      ///< Tensor lists, tensor arrays, stacks.
/// Of ops with several outputs.
std::optional<Inferred> several_outputs(const Op& op);
/// Contents of the outputs, as far as arithmetic on shapes goes.
std::vector<Value> values_of(const Op& op, std::span<const Shape> outputs);
/// Of a StridedSlice: where each dimension of what comes out begins, which it is of the input, how far it
/// goes on; what is not known is nothing. Nothing at all if it does not fit.
struct Slice {
  std::optional<std::int64_t> begin;
  std::int64_t size = 0, stride = 1;
  bool gone = false, fresh = false;  ///< Taken out; put in by new_axis_mask.
};
std::optional<std::vector<Slice>> strided_slice(const Op& op);
/// Labels of an Einsum's equation, of the inputs and of the result, each with its size; empty if it does not
/// fit.
struct EinsumSizes {
  Shape result;
  std::int64_t all = 1;  ///< Product of all labels' sizes, at most 2^60.
};
std::optional<EinsumSizes> einsum(std::string_view equation, std::span<const Shape> inputs);

/// "axis" of `rank` dimensions, counted from the end if it is negative; nothing if it is out of range.
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);
using emplace::broadcast;
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

#pragma once
/// Infers shapes that a GraphDef does not contain: graphs written without `_output_shapes`, and shapes that
/// depend on an open dimension.

#include <optional>
#include <span>
#include <vector>

#include "graph/formats/tensorflow/tf_ops.h"

namespace emplace::tf {

/// Contents of a small integer tensor, if they are known before the step runs.
using Value = std::optional<std::vector<std::int64_t>>;

/// The contents of a constant; nothing if it is not an integer tensor or has more than 64 elements.
Value constant_value(const NodeDef& node);

struct Inferred {
  std::vector<Shape> shapes;       ///< [outputs]
  std::vector<Value> values = {};  ///< [outputs] Missing entries are unknown.
};

/// Infers the outputs of ops that occur in networks and their training. Returns nothing for other ops, and if
/// shapes or attributes are incompatible. A tensor list, a tensor array and a stack have the shape of their
/// tensors stacked, or [] if the tensors are unknown.
///   inputs, values   by data input
/// Results have at most 16 dimensions of at most 2^40, and at most 64 outputs. Pure; any thread.
std::optional<Inferred> infer_shapes(const NodeDef& node, std::span<const Shape> inputs,
                                     std::span<const Value> values);

}  // namespace emplace::tf

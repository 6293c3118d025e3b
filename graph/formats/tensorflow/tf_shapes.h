#pragma once
/// Shapes that a GraphDef does not tell: those of graphs that are written without `_output_shapes`, and
/// those that depend on a dimension that the file leaves open.

#include <optional>
#include <span>
#include <vector>

#include "graph/formats/tensorflow/tf_ops.h"

namespace emplace::tf {

/// Contents of a small tensor of whole numbers, where they are known before the step runs.
using Value = std::optional<std::vector<std::int64_t>>;

/// Of a constant; nothing if it is none of whole numbers, or has more than 64.
Value constant_value(const NodeDef& node);

struct Inferred {
  std::vector<Shape> shapes;       ///< By output.
  std::vector<Value> values = {};  ///< By output; what is missing is not known.
};

/// For the ops that graphs of networks and their training are made of; nothing for others, and where shapes
/// or attributes do not fit together. A tensor list has the shape of its tensors stacked, a tensor array and
/// a stack likewise; one whose tensors are not known has the shape [].
///   inputs, values   by data input
/// Results have at most 16 dimensions of at most 2^40, and at most 64 outputs. Pure; any thread.
std::optional<Inferred> infer_shapes(const NodeDef& node, std::span<const Shape> inputs,
                                     std::span<const Value> values);

}  // namespace emplace::tf

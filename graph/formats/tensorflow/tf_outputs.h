#pragma once
/// Types and shapes of all outputs of the nodes of a step.

#include <tf_graphdef.pb.h>

#include <cstddef>
#include <string>
#include <vector>

#include "graph/formats/tensorflow/tf_inline.h"
#include "graph/formats/tensorflow/tf_step.h"
#include "graph/op_graph.h"
#include "graph/open_dims.h"

namespace emplace::tf {

/// The result of outputs_of. Thread: a plain value.
struct Outputs {
  std::vector<std::vector<TensorSpec>> of;  ///< [nodes] Outputs; a handle has no bytes.
  std::size_t inferred = 0;                 ///< Number of nodes with inferred shapes.
  std::size_t open_dims = 0;         ///< Open dimensions of fed tensors without a size; each counts as 1.
  std::size_t unknown_dims = 0;      ///< Other open dimensions that no rule infers; each counts as 1.
  std::size_t unknown_shapes = 0;    ///< Shapes of unknown rank; each counts as a scalar.
  std::vector<std::string> unsized;  ///< Variables of unknown size; each counts as 0 bytes.
};

/// Infers the outputs of all nodes. The shape of state is its own. Other shapes come from the first of:
/// `_output_shapes` if complete; inference from the inputs; the shape that a call declares for its result;
/// `_output_shapes` if incomplete. `dims` supplies the sizes of open dimensions of fed tensors. For nodes
/// without any known shape `of` is empty.
Outputs outputs_of(const GraphDef& graph, const Step& step, const Inlined& inlined, DimUsage& dims);

}  // namespace emplace::tf

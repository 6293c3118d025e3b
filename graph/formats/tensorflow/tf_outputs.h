#pragma once
/// Type and shape of everything that the nodes of a step put out.

#include <tf_graphdef.pb.h>

#include <cstddef>
#include <string>
#include <vector>

#include "graph/formats/tensorflow/tf_inline.h"
#include "graph/formats/tensorflow/tf_step.h"
#include "graph/op_graph.h"
#include "graph/open_dims.h"

namespace emplace::tf {

/// A plain value.
struct Outputs {
  std::vector<std::vector<TensorSpec>> of;  ///< By node; a handle has no bytes.
  std::size_t inferred = 0;                 ///< Nodes whose shapes follow from their inputs.
  std::size_t open_dims = 0;         ///< Dimensions of what a step is fed, without a size: they count as 1.
  std::size_t unknown_dims = 0;      ///< Others that the file leaves open and no rule gives: they count as 1.
  std::size_t unknown_shapes = 0;    ///< Shapes of unknown rank: they count as scalars.
  std::vector<std::string> unsized;  ///< Variables whose size nothing tells; they count as nothing.
};

/// Shapes: those of state are its own, else those that the file lists (`_output_shapes`) if they are
/// complete, else what follows from the inputs, else what the call declares whose result it is, else what is
/// listed. `dims` is asked for the open dimensions of what a step is fed. Of nodes without any `of` is empty.
Outputs outputs_of(const GraphDef& graph, const Step& step, const Inlined& inlined, DimsMet& dims);

}  // namespace emplace::tf

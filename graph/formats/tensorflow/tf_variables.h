#pragma once
/// The purpose of each variable of a step, and the sizes of variables that do not declare their own.

#include <tf_graphdef.pb.h>

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/formats/tensorflow/tf_inline.h"
#include "graph/formats/tensorflow/tf_step.h"

namespace emplace::tf {

/// [nodes] Result of variables_of. Thread: a plain value.
struct Variables {
  std::vector<const char*> kind;  ///< "Parameter", "OptimizerState", "Buffer"; "Input" for a Placeholder.
  bool trains = false;            ///< Whether any variable is trained.
  bool any = false;
};

/// A variable is a Parameter if an optimiser op (Apply…) trains it, or if an assignment that depends on a
/// gradient writes it and a gradient depends on it. Other variables that such updates write are slots. If
/// nothing is trained all variables are Parameters, otherwise the remaining ones are Buffers.
Variables variables_of(const GraphDef& graph, const Step& step);

/// Type and shape of captured variables by node: as declared by a function that takes the variable, else the
/// largest listed shape that is read from it or written to it. A variable of which both are missing is not in
/// it.
std::unordered_map<std::uint32_t, OpDef::DtypeAndShape> variable_sizes(const GraphDef& graph,
                                                                       const Step& step,
                                                                       const Inlined& inlined);

/// Returns whether the rank and all dimensions are known.
bool is_complete(const TensorShapeProto& shape);

}  // namespace emplace::tf

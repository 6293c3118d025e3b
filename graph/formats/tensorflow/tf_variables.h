#pragma once
/// What the variables of a step are for, and how large those are that do not say it themselves.

#include <tf_graphdef.pb.h>

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/formats/tensorflow/tf_inline.h"
#include "graph/formats/tensorflow/tf_step.h"

namespace emplace::tf {

/// A plain value, by node number.
struct Variables {
  std::vector<const char*> kind;  ///< "Parameter", "OptimizerState", "Buffer"; "Input" of a Placeholder.
  bool trains = false;            ///< Some variable is trained.
  bool any = false;
};

/// A variable is a Parameter if an optimiser (Apply…) trains it, or if an assignment of what follows from a
/// gradient does and a gradient follows from it; what such updates write besides are their slots. Where
/// nothing is trained every variable is a Parameter, else the others are Buffers.
Variables variables_of(const GraphDef& graph, const Step& step);

/// Type and shape of a captured variable: what a function says of it that takes it, else the largest shape
/// that the file lists for what is read from it or written to it. Null if there is neither.
class VariableSizes {
 public:
  VariableSizes(const GraphDef& graph, const Step& step, const Inlined& inlined);
  const OpDef::DtypeAndShape* find(std::uint32_t node) const;

 private:
  std::unordered_map<std::uint32_t, OpDef::DtypeAndShape> by_node_;
};

/// True if the rank and every dimension are known.
bool is_complete(const TensorShapeProto& shape);

}  // namespace emplace::tf

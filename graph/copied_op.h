#pragma once
/// An op of a graph as input of a builder, for graphs that differ from it in a few fields.

#include "graph/op_graph.h"

namespace emplace {

/// Returns everything that the graph knows of the op. A builder that is given all ops in order builds an
/// equal graph.
OpSpec copied_op(const OpGraph& graph, OpId op);

}  // namespace emplace

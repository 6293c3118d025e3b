#pragma once
/// A GraphDef that has been parsed, as a graph (tf_graphdef.h has what becomes of what).

#include <string_view>

#include "base/result.h"
#include "graph/formats/tensorflow/tf_saved_model.h"
#include "graph/op_graph.h"
#include "graph/open_dims.h"

namespace emplace::tf {

/// Errors: those of parse_tf_graphdef, from the nodes on.
Result<OpGraph> read_graph(Served served, const OpenDims& dims, std::string_view where);

}  // namespace emplace::tf

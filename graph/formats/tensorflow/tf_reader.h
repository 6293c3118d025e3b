#pragma once
/// Converts a parsed GraphDef to a graph (tf_graphdef.h describes the mapping).

#include <string_view>

#include "base/result.h"
#include "graph/formats/tensorflow/tf_saved_model.h"
#include "graph/op_graph.h"
#include "graph/open_dims.h"

namespace emplace::tf {

/// Errors: those of parse_tf_graphdef that concern nodes.
Result<OpGraph> read_graph(Served served, const OpenDims& dims, std::string_view where);

}  // namespace emplace::tf

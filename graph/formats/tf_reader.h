#pragma once
/// A GraphDef that has been parsed, as a graph (tf_graphdef.h has what becomes of what).

#include <string_view>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace::tf {

class GraphDef;

/// Errors: those of parse_tf_graphdef, from the nodes on.
Result<OpGraph> read_graph(const GraphDef& graph, std::string_view where);

}  // namespace emplace::tf

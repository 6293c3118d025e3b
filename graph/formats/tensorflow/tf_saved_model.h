#pragma once
/// Selects the GraphDef of a TensorFlow file and the nodes that a step runs.

#include <tf_graphdef.pb.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"
#include "graph/open_dims.h"

namespace emplace::tf {

struct Served {
  GraphDef graph;
  std::vector<bool> runs;  ///< [nodes] Whether a node runs; empty: all run.
  std::vector<std::string> notes;
};

/// Uses the meta graph tagged `serve`, else the first. A step runs what its signature `serving_default` needs
/// (else `serve`, `predict`, or the first by name). Without a signature a call is added, with a Placeholder
/// per argument, to the largest concrete function that nothing calls. Errors (kInvalid): no meta graph; a
/// signature whose result is not a node; neither a signature nor a function.
Result<Served> served_by(const SavedModel& model, std::string_view where);

/// Converts a parsed GraphDef to a graph (tf_graphdef.h describes the mapping). Errors: those of
/// parse_tf_graphdef that concern nodes.
Result<OpGraph> read_graph(Served served, const OpenDims& dims, std::string_view where);

}  // namespace emplace::tf

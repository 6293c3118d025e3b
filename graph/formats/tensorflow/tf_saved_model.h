#pragma once
/// The GraphDef that a file of TensorFlow's holds, and which of its nodes a step runs.

#include <tf_graphdef.pb.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace emplace::tf {

struct Served {
  GraphDef graph;
  std::vector<bool> runs;  ///< By node; empty: all of them.
  std::vector<std::string> notes;
};

/// The meta graph tagged `serve`, or the first, and of it what its signature `serving_default` needs (else
/// `serve`, `predict` or the first by name). Without a signature a call of a concrete function that nothing
/// calls, the one of most nodes, is added with a Placeholder per argument.
/// Errors (kInvalid): no meta graph; a signature whose result is no node; neither a signature nor a function.
Result<Served> served_by(SavedModel model, std::string_view where);

}  // namespace emplace::tf

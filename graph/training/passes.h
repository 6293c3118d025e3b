#pragma once
/// The parts of a training step: what each forward and backward pass has of its own, and its gradients.

#include <vector>

#include "base/ids.h"
#include "graph/op_graph.h"

namespace emplace {

/// Thread: a plain value.
struct TrainingPasses {
  explicit TrainingPasses(const OpGraph& graph);

  /// [ops] Whether each pass over a batch has its own: the kernels of forward and backward pass, inputs of
  /// the model, and views of those.
  std::vector<bool> each;
  std::vector<bool> is_gradient;  ///< [tensors] Whether a pass makes it and the update reads it.
};

/// The op that makes the data of a tensor, through views.
OpId maker_of(const OpGraph& graph, TensorId tensor);

}  // namespace emplace

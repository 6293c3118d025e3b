#pragma once
/// The loss of a training graph: that of the model, or default losses for a model without one.

#include <string>
#include <vector>

#include "graph/training/recorder.h"

namespace emplace::training {

/// An output of the model.
struct Output {
  Tensor tensor;
  std::string name, type;  ///< Name and type of the node that computes it.
};

/// The scalar to differentiate; labels become inputs of the graph:
///   a scalar                         itself, or the sum of several
///   [B, C], [B, T, C], [B, C, H, W]  cross entropy over C; after a softmax, the likelihood of its result
///   all others, and C = 1            mean square of the difference from an input
/// Adds a sentence per output to `notes`, which states its loss.
Tensor total_loss(Recorder& r, const std::vector<Output>& outputs, std::vector<std::string>& notes);

}  // namespace emplace::training

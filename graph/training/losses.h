#pragma once
/// Losses: those of a model, and those that a model without one gets.

#include <string>
#include <vector>

#include "graph/training/recorder.h"

namespace emplace::training {

/// -mean log softmax(scores)[label].   scores [B, C, …]; labels [B, …]; a scalar
Tensor cross_entropy(Recorder& r, Tensor scores, Tensor labels);
/// -mean log_p[label], of the same shapes.
Tensor negative_log_likelihood(Recorder& r, Tensor log_p, Tensor labels);
/// mean (x − target)²
Tensor mean_square(Recorder& r, Tensor x, Tensor target);

/// An output of the model.
struct Output {
  Tensor tensor;
  std::string name, type;  ///< Of the node that makes it.
};

/// The scalar to differentiate, with its labels as inputs of the graph:
///   a scalar                         itself, or the sum of several
///   [B, C], [B, T, C], [B, C, H, W]  cross entropy over C; behind a softmax, the likelihood of its result
///   all others, and C = 1            the mean square of the difference from an input
/// Adds to `notes` a sentence that says what each output got.
Tensor total_loss(Recorder& r, const std::vector<Output>& outputs, std::vector<std::string>& notes);

}  // namespace emplace::training

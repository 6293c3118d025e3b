#pragma once
/// A whole training step from a model's forward pass: the ops of the pass in ATen's words, those of its
/// gradient and of an optimizer. docs/guide/training.md says what becomes of what.

#include "base/result.h"
#include "graph/models/training_tape.h"
#include "graph/op_graph.h"

namespace emplace {

/// The step that trains `forward`, an inference graph of ONNX ops: forward, backward and update, as torch's
/// tracer would record it. Float parameters that a loss depends on are trained; running statistics of batch
/// norm become buffers. A scalar output is the loss; else each output gets one (meta.notes says which).
/// Forward ops keep the names and scopes of their nodes, parameters theirs.
/// Errors (kInvalid): a graph that trains already; no output that depends on a parameter; kinds of ops
/// between a parameter and the loss whose gradient is not known, all of them with their counts; a node whose
/// shapes contradict its kind. Pure; any thread.
Result<OpGraph> training_graph(const OpGraph& forward, models::Optimizer optimizer);

}  // namespace emplace

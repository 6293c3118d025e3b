#pragma once
/// Builds a training step from a model's forward pass: the forward ops as ATen ops, their gradients, and an
/// optimizer. docs/guide/training.md describes the mapping.

#include "base/result.h"
#include "graph/op_graph.h"
#include "graph/tape/training_tape.h"

namespace emplace {

/// Returns the step that trains `forward`, an inference graph of ONNX ops: forward, backward and update, as
/// torch's tracer would record it. Float parameters that a loss depends on are trained; running statistics of
/// batch norm become buffers. A scalar output is the loss; otherwise each output gets one (listed in
/// meta.notes). Forward ops keep the names and scopes of their nodes, parameters keep their names. Errors
/// (kInvalid): a graph that is a training graph already; no output that depends on a parameter; op kinds
/// between a parameter and the loss without a gradient rule, all with their counts; a node whose shapes
/// contradict its kind. Pure; any thread.
Result<OpGraph> training_graph(const OpGraph& forward, models::Optimizer optimizer);

}  // namespace emplace

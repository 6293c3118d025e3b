#pragma once
/// Finds groups of ONNX nodes that represent one op of the exporting framework.

#include "graph/training/forward_pass.h"

namespace emplace::training {

/// Replaces these groups in `pass.nodes`, at the position of the group's last node:
///   x / √2, erf, + 1, · x, · ½       Gelu (x)
///   x · sigmoid(x)                   Silu (x)
///   x W + b, b a vector              Linear (x, W, b)
///   (x − mean) / √(var + ε) · w + b  LayerNormalization (x, w, b)
/// A group is joined only if no other node reads its intermediate results. Its numeric constants are not
/// compared.
void join_idioms(const OpGraph& graph, ForwardPass& pass);

}  // namespace emplace::training

#pragma once
/// Groups of ONNX nodes that stand for one op of the framework that exported them.

#include "graph/training/forward_pass.h"

namespace emplace::training {

/// Replaces in `pass.nodes`, at the place of the group's last node:
///   x / √2, erf, + 1, · x, · ½       Gelu (x)
///   x · sigmoid(x)                   Silu (x)
///   x W + b, b a vector              Linear (x, W, b)
///   (x − mean) / √(var + ε) · w + b  LayerNormalization (x, w, b)
/// A group is joined only if nothing else reads what is inside it. The numbers in it are not compared.
void join_idioms(const OpGraph& graph, ForwardPass& pass);

}  // namespace emplace::training

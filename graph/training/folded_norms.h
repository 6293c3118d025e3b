#pragma once
/// Batch norms that an exporter multiplied into the weights of convolutions.

#include <optional>
#include <string>

#include "graph/op_graph.h"

namespace emplace::training {

/// What is missing from a step of a graph whose batch norms were folded away, in a sentence; nothing if none
/// seem to be. The evidence: a convolution with a bias that carries no module's name beside its weight's
/// ("conv1.weight" with "onnx::Conv_124", or both numbered), where exporters keep the names of what they do
/// not change. Pure; any thread.
std::optional<std::string> folded_norms(const OpGraph& forward);

}  // namespace emplace::training

#pragma once
/// Detects batch norms that an exporter folded into convolution weights.

#include <optional>
#include <string>

#include "graph/op_graph.h"

namespace emplace::training {

/// Describes in a sentence what is missing from a step because batch norms were folded; nothing if there seem
/// to be none. The evidence is a convolution whose bias has no module name that matches its weight's
/// ("conv1.weight" with "onnx::Conv_124", or both numbered), because exporters keep the names of unchanged
/// weights. Pure; any thread.
std::optional<std::string> folded_norms(const OpGraph& forward);

}  // namespace emplace::training

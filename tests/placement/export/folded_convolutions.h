#pragma once
// Convolutions in a chain, as exporters leave them that fold batch norms away.

#include <cstdint>
#include <string>

#include "graph/op_graph.h"

namespace emplace::testing {

/// Convolutions `first` and `first` + 1 in a chain. Op "opN" has the scope of its batch norm, "PREFIX/bnN",
/// and its weight the name of the convolution, "PREFIX.convN.weight"; an empty prefix gives "bnN" and
/// "convN.weight".
inline OpGraph folded_convolutions(const std::string& prefix, int first, const std::string& source = "") {
  OpGraphBuilder builder;
  builder.set_source(source);
  for (int k = 0; k < 2; ++k) {
    const std::string number = std::to_string(first + k);
    OpSpec weight;
    weight.name = (prefix.empty() ? "" : prefix + ".") + "conv" + number + ".weight";
    weight.type = "Parameter";
    weight.outputs = {{DType::kF32, {8}}};
    const OpId state = builder.add(weight);
    OpSpec op;
    op.name = "op" + number;
    op.type = "Conv";
    op.group = (prefix.empty() ? "" : prefix + "/") + "bn" + number;
    op.inputs = {{static_cast<std::uint32_t>(index(state)), 0}};
    if (k > 0) op.inputs.push_back({1, 0});
    op.outputs = {{DType::kF32, {8}}};
    builder.add(op);
  }
  return std::move(builder).build().value();
}

}  // namespace emplace::testing

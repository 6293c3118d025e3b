#pragma once
/// Torch's counts for the graphs in tests/fixtures/formats, and ours for the same graphs.

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "graph/op_graph.h"

namespace emplace {

/// Entry of a file in torch.json; make_torch.py describes its keys.
inline nlohmann::json torch_counts(const std::string& file) {
  std::ifstream in{std::filesystem::path{EMPLACE_FIXTURES} / "formats" / "torch.json"};
  return nlohmann::json::parse(in).at(file);
}

/// Counts like torch: products and convolutions, without biases and softmax.
inline std::int64_t matrix_flops(const OpGraph& graph) {
  constexpr std::array<std::string_view, 8> kCounted{"mm",
                                                     "addmm",
                                                     "bmm",
                                                     "matmul",
                                                     "linear",
                                                     "convolution",
                                                     "convolution_backward",
                                                     "scaled_dot_product_attention"};
  const auto elements = [&](TensorId tensor) {
    std::int64_t n = 1;
    for (const std::int64_t size : graph.shape(tensor)) n *= size;
    return n;
  };
  std::int64_t sum = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    const auto in = graph.inputs(op);
    for (const std::string_view type : kCounted) {
      if (graph.type_name(op) != "aten::" + std::string{type}) continue;
      sum += graph.flops(op);
      const bool backward = type == "convolution_backward",
                 attention = type == "scaled_dot_product_attention";
      if (backward && graph.attrs_json(op).find("true]") != std::string_view::npos) sum -= elements(in[0]);
      if (!backward && !attention && type != "mm" && in.size() > 2) sum -= elements(graph.first_output(op));
      if (attention) sum -= 5 * elements(in[0]) / graph.shape(in[0]).back() * graph.shape(in[1])[2];
    }
  }
  return sum;
}

/// Ops that are no state, and bytes of state of one kind.
inline std::int64_t num_calls(const OpGraph& graph) {
  std::int64_t calls = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) calls += graph.is_state(OpId{i}) ? 0 : 1;
  return calls;
}
inline std::int64_t state_bytes(const OpGraph& graph, std::string_view type) {
  std::int64_t bytes = 0;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i)
    if (graph.type_name(OpId{i}) == type) bytes += graph.param_bytes(OpId{i});
  return bytes;
}

}  // namespace emplace

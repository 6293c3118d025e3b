#include <fmt/core.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text/words.h"
#include "graph/training/forward_pass.h"

namespace emplace::training {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::int64_t kNormFlops = 20;  // Flops per element, forward and backward.

/// Returns whether the exporter created the bias: a module's is "X.bias" beside "X.weight".
bool is_made(std::string_view weight, std::string_view bias) {
  if (weight.starts_with("onnx::") && bias.starts_with("onnx::")) return true;
  if (!weight.ends_with(kWeight)) return false;
  weight.remove_suffix(kWeight.size());
  return bias != std::string{weight} + ".bias";
}

bool feeds_norm(const OpGraph& graph, OpId conv) {
  for (const OpId reader : graph.consumers(graph.first_output(conv))) {
    if (graph.type_name(reader) == "BatchNormalization") return true;
  }
  return false;
}

/// [ops] Whether the reader knows that the op's weights hold a batch norm.
std::vector<bool> known_folded(const OpGraph& graph) {
  std::vector<bool> folded(graph.num_ops());
  const auto meta = nlohmann::json::parse(graph.meta_json(), nullptr, false);
  if (!meta.is_object() || !meta.contains("folded_norms")) return folded;
  for (const auto& op : meta["folded_norms"])
    if (op.is_number_unsigned() && op.get<std::size_t>() < folded.size())
      folded[op.get<std::size_t>()] = true;
  return folded;
}

/// Returns whether a convolution has a bias that the exporter made.
bool has_made_bias(const OpGraph& graph, OpId op) {
  const auto inputs = graph.inputs(op);
  if (graph.type_name(op) != "Conv" || inputs.size() < 3 || graph.shape(inputs[2]).size() != 1) return false;
  const OpId weight = graph.producer(inputs[1]), bias = graph.producer(inputs[2]);
  return graph.type_name(weight) == "Parameter" && graph.type_name(bias) == "Parameter" &&
         is_made(graph.name(weight), graph.name(bias)) && !feeds_norm(graph, op);
}

}  // namespace

std::optional<std::string> folded_norms(const OpGraph& forward) {
  const std::vector<bool> known = known_folded(forward);
  std::size_t folding = 0, folded = 0;
  std::int64_t channels = 0;
  double flops = 0;
  std::string_view example;
  for (const OpId op : forward.topological_order()) {
    const std::string_view type = forward.type_name(op);
    if (type != "Conv" && type != "ConvTranspose" && type != "Gemm") continue;
    if (type != "Gemm" || known[index(op)]) ++folding;
    if (forward.num_outputs(op) == 0 || (!known[index(op)] && !has_made_bias(forward, op))) continue;
    if (folded++ == 0) example = forward.name(op);
    const TensorId made = forward.first_output(op);
    if (forward.shape(made).size() > 1) channels += forward.shape(made)[1];
    flops += static_cast<double>(kNormFlops * (forward.bytes(made) / element_bytes(forward.dtype(made))));
  }
  if (folded == 0) return std::nullopt;
  return fmt::format(
      "training: the exporter folded batch norms into {} of {} convolutions and products (such as '{}'). A "
      "step of the original also has these norms: {} more channels with scale, running mean and variance, "
      "and {:.3g} GFLOP; export in training mode without constant folding, with dynamo=False",
      folded, folding, printable(example, 60), channels, flops / 1e9);
}

}  // namespace emplace::training

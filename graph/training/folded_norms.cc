#include <fmt/core.h>

#include <cstdint>
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

}  // namespace

std::optional<std::string> folded_norms(const OpGraph& forward) {
  std::size_t convolutions = 0, folded = 0;
  std::int64_t channels = 0;
  double flops = 0;
  std::string_view example;
  for (const OpId op : forward.topological_order()) {
    if (forward.type_name(op) != "Conv") continue;
    ++convolutions;
    const auto inputs = forward.inputs(op);
    if (inputs.size() < 3 || forward.num_outputs(op) == 0 || forward.shape(inputs[2]).size() != 1) continue;
    const OpId weight = forward.producer(inputs[1]), bias = forward.producer(inputs[2]);
    if (forward.type_name(weight) != "Parameter" || forward.type_name(bias) != "Parameter") continue;
    if (!is_made(forward.name(weight), forward.name(bias)) || feeds_norm(forward, op)) continue;
    if (folded++ == 0) example = forward.name(bias);
    const std::int64_t bytes = element_bytes(forward.dtype(inputs[2]));
    channels += forward.bytes(inputs[2]) / bytes;
    const TensorId made = forward.first_output(op);
    const std::int64_t elements = forward.bytes(made) / element_bytes(forward.dtype(made));
    flops += static_cast<double>(kNormFlops * elements);
  }
  if (folded == 0) return std::nullopt;
  return fmt::format(
      "training: {} of {} convolutions have a bias that belongs to no module ('{}'): the exporter folded "
      "batch "
      "norms into them. A step of the original also has these norms: {} more channels with scale, running "
      "mean and variance, and {:.3g} GFLOP; export in training mode without constant folding",
      folded, convolutions, printable(example, 60), channels, flops / 1e9);
}

}  // namespace emplace::training

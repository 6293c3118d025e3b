#include "placement/costs/op_sizes.h"

#include <charconv>

namespace emplace::kernel_shapes {

std::vector<std::int64_t> read_bytes(const OpGraph& graph) {
  std::vector<std::int64_t> bytes(graph.num_tensors());
  std::vector<bool> fused(graph.num_types());  // XLA repeats a broadcast in the kernels that read it.
  for (std::size_t k = 0; k < fused.size(); ++k)
    fused[k] = graph.type_name(TypeId{static_cast<std::uint16_t>(k)}) == "hlo::broadcast";
  for (const OpId op : graph.topological_order()) {
    const auto inputs = graph.inputs(op);
    const bool view = !inputs.empty() && (graph.is_view(op) || fused[index(graph.type(op))]);
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      const TensorId made = graph.output(op, k);
      bytes[index(made)] = view ? std::min(graph.bytes(made), bytes[index(inputs[0])]) : graph.bytes(made);
    }
  }
  return bytes;
}

double OpSizes::traffic() const {
  double bytes = bytes_made();
  for (std::size_t k = 0; k < inputs_.size(); ++k) {
    constexpr std::size_t kFew = 8;  // Ops with more inputs join them, and read each once.
    const auto earlier = inputs_.first(inputs_.size() > kFew ? 0 : k);
    if (std::find(earlier.begin(), earlier.end(), inputs_[k]) == earlier.end()) bytes += bytes_read(k);
  }
  return bytes;
}

/// The text behind the name and its colon; empty if there is none.
std::string_view OpSizes::value_of(std::string_view name) const {
  const std::string_view attrs = graph_.attrs_json(op_);
  for (std::size_t at = attrs.find(name); at != std::string_view::npos; at = attrs.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if (at > 0 && attrs[at - 1] == '"' && attrs.substr(end).starts_with("\":")) return attrs.substr(end + 2);
  }
  return {};
}

std::int64_t OpSizes::attribute(std::string_view name, std::int64_t otherwise) const {
  const std::string_view text = value_of(name);
  std::int64_t value = 0;
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc{} ? value : otherwise;
}

bool OpSizes::flag(std::string_view name) const {
  return value_of(name).starts_with("true") || attribute(name, 0) != 0;
}

bool OpSizes::is_weight(std::size_t input) const {
  if (input >= inputs_.size()) return false;
  OpId maker = graph_.producer(inputs_[input]);
  // Views, copies and conversions have one input and no work.
  for (int hops = 0; hops < 8 && !graph_.is_state(maker); ++hops) {
    if (graph_.flops(maker) != 0 || graph_.inputs(maker).empty()) return false;
    if (!graph_.is_view(maker) && graph_.inputs(maker).size() != 1) return false;
    maker = graph_.producer(graph_.inputs(maker)[0]);
  }
  const std::string_view type = graph_.type_name(maker);
  return type == "Parameter" || type == "Constant" || type == "Buffer";
}

}  // namespace emplace::kernel_shapes

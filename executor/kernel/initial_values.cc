#include "executor/kernel/initial_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/rng.h"

namespace emplace {
namespace {

/// value = scale · u + shift
struct Range {
  double scale = 2, shift = -1;
};

Range range_of(const OpGraph& graph, OpId op) {
  const std::string_view type = graph.type_name(op);
  const auto shape = graph.shape(graph.output(op, 0));
  std::int64_t elements = 1;
  for (const std::int64_t dim : shape) elements *= dim;
  if (type == "Parameter" && shape.size() >= 2) {
    const double fan_in =
        static_cast<double>(elements) / static_cast<double>(std::max<std::int64_t>(1, shape[0]));
    return {2 / std::sqrt(fan_in), -1 / std::sqrt(fan_in)};
  }
  if (type == "Parameter") return graph.name(op).ends_with("weight") ? Range{1, 0.5} : Range{0.2, -0.1};
  if (type == "Buffer") return {1, 0.5};
  if (type == "OptimizerState") return {0.001, 0};
  if (type == "Constant" && elements == 1) return {0, 2};
  return {};
}

/// Number of rows or classes that `reader` indexes with its input number `input`; nothing if it does not
/// index.
std::optional<std::int64_t> looked_up(const OpGraph& graph, OpId reader, std::size_t input) {
  const std::string_view type = graph.type_name(reader);
  const auto inputs = graph.inputs(reader);
  const auto dim = [&](std::size_t k, std::size_t d) -> std::optional<std::int64_t> {
    const auto shape = graph.shape(inputs[k]);
    return d < shape.size() ? std::optional{shape[d]} : std::nullopt;
  };
  if (type == "aten::embedding" && input == 1) return dim(0, 0);
  if (type == "Gather" && input == 1) return dim(0, 0);
  if (type.starts_with("aten::nll_loss") && !type.ends_with("backward") && input == 1) return dim(0, 1);
  return std::nullopt;
}

}  // namespace

std::int64_t InitialValues::index_bound(OpId op) const {
  const OpGraph& graph = lowered_.graph();
  std::int64_t bound = 0;
  for (std::uint32_t b = lowered_.first_owned(op); b < lowered_.end_owned(op); ++b) {
    for (const OpId reader : lowered_.readers(BufferId{b})) {
      const auto inputs = graph.inputs(reader);
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        if (lowered_.buffer(inputs[k]) != BufferId{b}) continue;
        const auto rows = looked_up(graph, reader, k);
        if (rows && (bound == 0 || *rows < bound)) bound = *rows;
      }
    }
  }
  return bound == 0 ? 2 : bound;
}

InitialFill InitialValues::fill_of(BufferId buffer) const {
  const OpGraph& graph = lowered_.graph();
  const OpId op = lowered_.owner(buffer);
  const TensorId tensor = lowered_.tensor(buffer);
  const DType dtype = graph.dtype(tensor);
  // No kernel computes with f16 or f8, so zeros suffice.
  if (tensor != graph.output(op, 0) || dtype == DType::kF16 || dtype == DType::kF8)
    return {.zeros = true, .elements = graph.bytes(tensor)};
  InitialFill fill{.dtype = dtype,
                   .zeros = false,
                   .elements = graph.bytes(tensor) / element_bytes(dtype),
                   .stream = splitmix64(seed_ << 32 | index(op))};
  const bool real = dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16;
  const Range range = real ? range_of(graph, op) : Range{static_cast<double>(index_bound(op)), 0};
  fill.scale = range.scale, fill.shift = range.shift;
  return fill;
}

void InitialValues::fill(BufferId buffer, std::byte* memory) const {
  const OpGraph& graph = lowered_.graph();
  const OpId op = lowered_.owner(buffer);
  const TensorId tensor = lowered_.tensor(buffer);
  const auto bytes = static_cast<std::size_t>(graph.bytes(tensor));
  if (tensor == graph.output(op, 0) && given_ && given_(op, {memory, bytes})) return;
  const InitialFill fill = fill_of(buffer);
  if (fill.zeros) {
    std::memset(memory, 0, bytes);
    return;
  }
  visit_elements(fill, [&](const auto& element) {
    for (std::int64_t i = 0; i < fill.elements; ++i) {
      const auto value = element(i);
      std::memcpy(memory + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
    }
  });
}

}  // namespace emplace

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

template <class T, class Make>
void fill_as(std::byte* memory, std::int64_t elements, std::uint64_t stream, Make make) {
  for (std::int64_t i = 0; i < elements; ++i) {
    const double u =
        static_cast<double>(splitmix64(stream + static_cast<std::uint64_t>(i)) >> 40) * 0x1.0p-24;
    const auto value = static_cast<T>(make(u));
    std::memcpy(memory + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
}

std::uint16_t upper_half(double value) {
  const auto single = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &single, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
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

void InitialValues::fill(BufferId buffer, std::byte* memory) const {
  const OpGraph& graph = lowered_.graph();
  const OpId op = lowered_.owner(buffer);
  const TensorId tensor = lowered_.tensor(buffer);
  if (tensor != graph.output(op, 0)) {
    std::memset(memory, 0, static_cast<std::size_t>(graph.bytes(tensor)));
    return;
  }
  if (given_ && given_(op, {memory, static_cast<std::size_t>(graph.bytes(tensor))})) return;
  const DType dtype = graph.dtype(tensor);
  const std::int64_t elements = graph.bytes(tensor) / element_bytes(dtype);
  const std::uint64_t stream = splitmix64(seed_ << 32 | index(op));
  const Range range = range_of(graph, op);
  const auto real = [&](double u) { return range.scale * u + range.shift; };
  const std::int64_t bound = index_bound(op);
  const auto whole = [&](double u) { return std::floor(u * static_cast<double>(bound)); };
  switch (dtype) {
    case DType::kF32:
      return fill_as<float>(memory, elements, stream, real);
    case DType::kF64:
      return fill_as<double>(memory, elements, stream, real);
    case DType::kBF16:
      return fill_as<std::uint16_t>(memory, elements, stream, [&](double u) { return upper_half(real(u)); });
    case DType::kF16:  // No kernel computes with f16 here, so zeros suffice.
      return fill_as<std::uint16_t>(memory, elements, stream, [](double) { return 0; });
    case DType::kI64:
      return fill_as<std::int64_t>(memory, elements, stream, whole);
    case DType::kI32:
      return fill_as<std::int32_t>(memory, elements, stream, whole);
    case DType::kI16:
      return fill_as<std::int16_t>(memory, elements, stream, whole);
    case DType::kI8:
      return fill_as<std::int8_t>(memory, elements, stream, [](double u) { return u >= 0.5; });
    case DType::kU8:
    case DType::kBool:
      return fill_as<std::uint8_t>(memory, elements, stream, [](double u) { return u >= 0.5; });
  }
}

}  // namespace emplace

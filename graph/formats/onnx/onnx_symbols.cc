#include "graph/formats/onnx/onnx_symbols.h"

#include <fmt/core.h>
#include <onnx.pb.h>

#include "graph/symbolic_size.h"

namespace emplace::onnx_io {

Symbols::Symbols(const OpenDims& given) : given_{given} {
  sizes_.insert(given.named.begin(), given.named.end());
}

void Symbols::add_input(const onnx::ValueInfoProto& input) {
  const auto& shape = input.type().tensor_type().shape();
  for (int axis = 0; axis < shape.dim_size(); ++axis) {
    const auto& dim = shape.dim(axis);
    if (dim.has_dim_value() && dim.dim_value() >= 0) continue;
    const std::string name =
        dim.dim_param().empty() ? fmt::format("{}.{}", input.name(), axis) : dim.dim_param();
    if (sizes_.contains(name) && !given_.named.contains(name)) continue;
    const auto size = usage_.size_of(name, static_cast<std::size_t>(axis));
    if (size) sizes_[name] = *size;
  }
}

std::optional<std::vector<std::int64_t>> Symbols::shape(const onnx::TensorShapeProto& shape,
                                                        std::string_view input) {
  std::vector<std::int64_t> dims;
  for (int axis = 0; axis < shape.dim_size(); ++axis) {
    const auto& dim = shape.dim(axis);
    std::optional<std::int64_t> size;
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      size = dim.dim_value();
    } else if (!dim.dim_param().empty()) {
      size = value(dim.dim_param());
    } else if (const auto it = sizes_.find(fmt::format("{}.{}", input, axis));
               !input.empty() && it != sizes_.end()) {
      size = it->second;
      if (given_.named.contains(it->first)) static_cast<void>(usage_.size_of(it->first, 1));
    }
    if (!size || *size < 0) return std::nullopt;
    dims.push_back(*size);
  }
  return dims;
}

std::int64_t Symbols::bounded(const std::string& name, std::int64_t most) {
  if (const auto given = usage_.size_of(name, 1)) return *given;
  if (sizes_.try_emplace(name, most).second) bounds_.emplace_back(name, most);
  return sizes_[name];
}

std::optional<std::int64_t> Symbols::value(std::string_view expression) {
  // Exporters may use any name, so look up the whole text before parsing it as a formula.
  if (const auto it = sizes_.find(std::string{expression}); it != sizes_.end()) {
    if (given_.named.contains(expression)) static_cast<void>(usage_.size_of(expression, 1));
    return it->second;
  }
  const auto size = evaluate_size(expression, 1, usage_);
  return size ? *size : std::nullopt;
}

}  // namespace emplace::onnx_io

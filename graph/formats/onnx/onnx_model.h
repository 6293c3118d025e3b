#pragma once
/// ONNX files as protobuf messages, without the contents of weights.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace onnx {
class AttributeProto;
class ModelProto;
class NodeProto;
class TensorProto;
}  // namespace onnx

namespace emplace::onnx_io {

using Proto = onnx::TensorProto;  ///< Names element types: Proto::FLOAT.

/// Contents above this size cannot decide a shape: they are dropped before the file is parsed.
inline constexpr std::size_t kKeptBytes = std::size_t{32} << 10;

/// The bytes of a ModelProto without the contents of tensors above kKeptBytes; nothing if they are malformed.
std::optional<std::string> without_weights(std::span<const std::byte> model);

/// Errors (kInvalid): no model, one that is cut short, one above 2 GiB without its weights.
Result<Unit> parse_model(std::span<const std::byte> bytes, std::string_view where, onnx::ModelProto& model);

/// The attribute called `name`, or null.
const onnx::AttributeProto* find(const onnx::NodeProto& node, std::string_view name);

/// "Conv"; of another domain than ONNX's own "com.microsoft::MatMulNBits".
std::string kind_of(const onnx::NodeProto& node);

/// Product of dimensions; the largest number if one is negative or the product overflows.
std::int64_t elements_or_max(std::span<const std::int64_t> shape);

/// Contents of a small tensor of whole numbers (truth values count), or of real ones; nothing if the file
/// does not hold them or the element type is another.
std::optional<std::vector<std::int64_t>> whole_numbers(const onnx::TensorProto& tensor);
std::optional<std::vector<double>> real_numbers(const onnx::TensorProto& tensor);

/// "'name'", harmless on a terminal.
std::string in_quotes(std::string_view name);

}  // namespace emplace::onnx_io

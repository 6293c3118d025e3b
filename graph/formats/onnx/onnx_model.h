#pragma once
/// Parses ONNX files into protobuf messages, without the contents of weights.

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

using Proto = onnx::TensorProto;  ///< Alias for element types, such as Proto::FLOAT.

/// Larger contents cannot determine a shape; they are dropped before parsing.
inline constexpr std::size_t kKeptBytes = std::size_t{32} << 10;

/// Returns a ModelProto without the contents of tensors above kKeptBytes; nothing if the bytes are malformed.
std::optional<std::string> without_weights(std::span<const std::byte> model);

/// Errors (kInvalid): not a model, truncated, above 2 GiB without its weights.
Result<Unit> parse_model(std::span<const std::byte> bytes, std::string_view where, onnx::ModelProto& model);

/// Version of the default ONNX opset that the model uses; 1 for files older than opsets.
int opset_of(const onnx::ModelProto& model);

/// Returns whether the location of an external tensor is inside the model's folder.
bool stays_inside(std::string location);

/// The attribute `name`, or null.
const onnx::AttributeProto* find(const onnx::NodeProto& node, std::string_view name);

/// The op kind: "Conv", or with a domain other than ONNX's own "com.microsoft::MatMulNBits".
std::string kind_of(const onnx::NodeProto& node);

/// Product of dimensions; the largest number if one is negative or the product overflows.
std::int64_t elements_or_max(std::span<const std::int64_t> shape);

/// Contents of a small tensor of integers (or booleans), or of real numbers; nothing if the file does not
/// contain them or the element type differs.
std::optional<std::vector<std::int64_t>> whole_numbers(const onnx::TensorProto& tensor);
std::optional<std::vector<double>> real_numbers(const onnx::TensorProto& tensor);

/// Quotes a name, made safe for a terminal: "'name'".
std::string in_quotes(std::string_view name);

}  // namespace emplace::onnx_io

#pragma once
/// ONNX files as protobuf messages, without the contents of weights and without function calls.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/formats/reading/file_parts.h"

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

/// Replaces every call of a model function by the function's nodes, also in bodies of control flow. A node or
/// tensor NAME of the function becomes CALL/NAME; attributes that refer to attributes of the call are
/// substituted.
/// Errors (kInvalid): recursive functions; more than 300,000 nodes from functions.
Result<Unit> inline_functions(onnx::ModelProto& model, std::string_view where);

/// Version of the default ONNX opset that the model uses; 1 for files older than opsets.
int opset_of(const onnx::ModelProto& model);

/// Returns whether the location of an external tensor is inside the model's folder.
bool stays_inside(std::string location);

/// Reads the whole numbers of an external tensor from a regular file in `folder`, not through a link. Returns
/// nothing if they are not there.
std::optional<std::vector<std::int64_t>> external_numbers(const onnx::TensorProto& tensor,
                                                          const std::filesystem::path& folder);

/// The attribute `name`, or null.
const onnx::AttributeProto* find(const onnx::NodeProto& node, std::string_view name);

/// The op kind: "Conv", or with a domain other than ONNX's own "com.microsoft::MatMulNBits".
std::string kind_of(const onnx::NodeProto& node);

/// The module that a node came from, as levels separated by '/', from the first source available:
/// - `pkg.torch.onnx.name_scopes`: "['', 'layers.0', 'add']" is layers/0
/// - `namespace`: ": Net/layers.0: Block/add: aten.add" is layers/0
/// - the node's name: "/layers.0/Add" is layers.0
std::string onnx_scope(const onnx::NodeProto& node);

/// Product of dimensions; the largest number if one is negative or the product overflows.
std::int64_t elements_or_max(std::span<const std::int64_t> shape);

/// Contents of a small tensor of integers (or booleans), or of real numbers; nothing if the file does not
/// contain them or the element type differs.
std::optional<std::vector<std::int64_t>> whole_numbers(const onnx::TensorProto& tensor);
std::optional<std::vector<double>> real_numbers(const onnx::TensorProto& tensor);

}  // namespace emplace::onnx_io

#pragma once
/// Symbolic dimensions of an ONNX model and their sizes.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/open_dims.h"

namespace onnx {
class TensorShapeProto;
class ValueInfoProto;
}  // namespace onnx

namespace emplace::onnx_io {

/// Resolves symbolic dimensions. Thread: one.
class Symbols {
 public:
  explicit Symbols(const OpenDims& given);

  /// Assigns sizes to the open dimensions of a model input; a dimension without a name is called INPUT.AXIS.
  void add_input(const onnx::ValueInfoProto& input);
  /// Returns the shape if every dimension has a size: a number, a symbol, arithmetic on symbols ("2*seq +
  /// 1"), or, if unnamed, the size of that dimension of `input`.
  std::optional<std::vector<std::int64_t>> shape(const onnx::TensorShapeProto& shape,
                                                 std::string_view input = {});
  /// The value of "batch" or "batch*(seq + 1)"; nothing if a symbol has no size.
  std::optional<std::int64_t> value(std::string_view expression);

  /// The size of a dimension that depends on data, at most `most`: as given for `name`, else `most`, which
  /// bounds() lists.
  std::int64_t bounded(const std::string& name, std::int64_t most);
  /// The sizes given for NAME.0, NAME.1, … of a tensor whose rank is unknown.
  std::optional<std::vector<std::int64_t>> shape_of(std::string_view name) { return usage_.shape_of(name); }

  /// Dimensions that count as their largest size, in the order of the file.
  const std::vector<std::pair<std::string, std::int64_t>>& bounds() const { return bounds_; }
  const DimUsage& usage() const { return usage_; }

 private:
  const OpenDims given_;
  DimUsage usage_{given_};
  std::unordered_map<std::string, std::int64_t> sizes_;
  std::vector<std::pair<std::string, std::int64_t>> bounds_;
};

}  // namespace emplace::onnx_io

#pragma once
/// Writes sub-models, each an ONNX file.

#include <onnx.pb.h>

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "graph/formats/onnx/onnx_parts.h"
#include "placement/export/placement_export.h"
#include "placement/export/submodels/external_data.h"
#include "placement/export/submodels/model_division.h"

namespace emplace::interop {

/// Returns whether an export has written a file of this name: "part-000.onnx", "part-000.onnx.data".
bool is_part_file(std::string_view name);

/// Writes the parts, one after the other. Weights inside of the file are copied from its bytes to the part
/// without being parsed. The arguments must outlive it. Thread: one.
class PartWriter {
 public:
  /// `types`: of the model's values, by name.
  PartWriter(const PlacementExport& what, const onnx_io::ModelInFile& file,
             const std::unordered_map<std::string, onnx::TypeProto>& types);

  /// Writes the file of a part, and its external data if it has any. Returns its entry in the manifest.
  /// Errors: kIo; kInvalid for a value that passes from part to part and whose type is unknown, and for
  /// damaged weights.
  Result<nlohmann::json> write(const std::filesystem::path& folder, const Piece& piece, std::size_t number);

 private:
  using Spans = std::vector<onnx_io::ModelInFile::Initializer>;

  onnx::ModelProto head_of(const Piece& piece) const;
  Result<onnx::ValueInfoProto> info_of(const std::string& name) const;
  onnx::ValueInfoProto weight_info(const std::string& name) const;
  /// The file's types and quantization parameters of values inside of the part, and the inputs that older IR
  /// versions require for weights.
  void add_descriptions(const Piece& piece, const std::set<std::string_view>& made,
                        onnx::GraphProto& graph) const;
  /// Adds the weights whose data is external to the graph, and returns those inside of the file.
  Result<Spans> add_weights(const Piece& piece, onnx::GraphProto& graph, ExternalData& data) const;

  const PlacementExport& what_;
  const onnx_io::ModelInFile& file_;
  const std::unordered_map<std::string, onnx::TypeProto>& types_;
  std::unordered_map<std::string_view, const onnx::ValueInfoProto*> declared_;
};

}  // namespace emplace::interop

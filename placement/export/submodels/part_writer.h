#pragma once
/// Writes sub-models, each an ONNX file.

#include <onnx.pb.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "graph/formats/onnx/onnx_parts.h"
#include "placement/export/placement_export.h"
#include "placement/export/submodels/model_division.h"

namespace emplace::interop {

/// Returns whether an export has written a file of this name: "part-000.onnx", "part-000.onnx.data".
bool is_part_file(std::string_view name);

/// Writes the file of each part, one after the other, and its external data if it has any. Weights inside of
/// the file are copied from its bytes without being parsed. `types`: of the model's values, by name. Returns
/// the parts' entries in the manifest. Errors: kIo; kInvalid for a value that passes from part to part and
/// whose type is unknown, and for damaged weights.
Result<nlohmann::json> write_parts(const PlacementExport& what, const onnx_io::ModelInFile& file,
                                   const std::unordered_map<std::string, onnx::TypeProto>& types,
                                   const std::filesystem::path& folder, const std::vector<Piece>& pieces);

}  // namespace emplace::interop

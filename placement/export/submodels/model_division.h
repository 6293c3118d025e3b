#pragma once
/// Divides an ONNX model into sub-models, one per part of its placement.

#include <onnx.pb.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/formats/onnx/onnx_parts.h"
#include "placement/export/placement_export.h"
#include "placement/placement.h"

namespace emplace::interop {

inline constexpr std::string_view kSubmodels =
    "--to submodels";  ///< The place that errors of the export name.

/// The op of node 0 of the model. The ops before it are its inputs and weights.
std::size_t first_node_op(const PlacementExport& what, const onnx::GraphProto& graph);

/// What a part consists of, by positions and names in the model.
struct Piece {
  DeviceId device{};
  std::vector<int> nodes;  // In topological order; constants that it reads included.
  std::vector<std::string> inputs, outputs, weights;  // Values; without duplicates, in the order of use.
};

/// Assigns nodes, weights and values of a model to parts, which are in the order in which they run. Errors
/// (kInvalid): a model without a node that computes anything; a node that reads a value that no node
/// produces.
Result<std::vector<Piece>> divide(const PlacementExport& what, const onnx_io::ModelInFile& file);

/// The placement that the parts stand for: a weight or constant is on the devices of the parts that read it.
Placement placement_of_parts(const PlacementExport& what);

}  // namespace emplace::interop

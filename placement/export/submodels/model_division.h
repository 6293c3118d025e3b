#pragma once
/// Divides an ONNX model into sub-models, one per part of its placement.

#include <onnx.pb.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "graph/formats/onnx/onnx_parts.h"
#include "graph/op_graph.h"
#include "placement/export/parts.h"
#include "placement/export/placement_export.h"
#include "placement/placement.h"

namespace emplace::interop {

inline constexpr std::string_view kSubmodels = "--to submodels";  ///< Where errors of the export are.

/// The op of node 0 of the model. The ops before it are its inputs and weights.
std::size_t first_node_op(const PlacementExport& what, const onnx::GraphProto& graph);

/// What a part consists of, by positions and names in the model.
struct Piece {
  DeviceId device{};
  std::vector<int> nodes;  // In topological order; constants that it reads included.
  std::vector<std::string> inputs, outputs, weights;  // Values; without duplicates, in the order of use.
};

/// Assigns nodes, weights and values of a model to parts. `what` and `file` must outlive it. Thread: one.
class ModelDivision {
 public:
  ModelDivision(const PlacementExport& what, const onnx_io::ModelInFile& file);

  /// The parts in the order in which they run. To be called once. Errors (kInvalid): a model without a node
  /// that computes anything; a node that reads a value that no node produces.
  Result<std::vector<Piece>> make();

  /// The placement that the parts stand for: a weight or constant is on the devices of the parts that read
  /// it.
  Placement applied() const;

 private:
  int node_of(OpId op) const { return static_cast<int>(index(op) - first_); }
  OpId op_of(int node) const {
    return OpId{static_cast<std::uint32_t>(first_) + static_cast<std::uint32_t>(node)};
  }

  /// Values that a node reads, those of its bodies included.
  std::vector<std::string> reads_of(int node) const;
  Result<Unit> collect(const Part& part, std::size_t number);
  /// Outputs of a part are what later parts read and what the model returns. A constant or a weight that the
  /// model returns comes from the first part.
  void name_outputs();

  const PlacementExport& what_;
  const onnx_io::ModelInFile& file_;
  const onnx::GraphProto& graph_;
  const std::size_t first_;  // Op of node 0.
  std::unordered_map<std::string, int> producer_;
  std::set<std::string> model_inputs_, model_outputs_, crossing_;
  std::unordered_map<int, std::size_t> part_of_;  // [nodes] Nodes without state.
  std::vector<std::uint32_t> rank_;               // [ops]
  std::vector<Piece> pieces_;
};

}  // namespace emplace::interop

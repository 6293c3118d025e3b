#pragma once
/// Exports a placement in the formats of other tools: docs/guide/export.md.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"
#include "placement/placement.h"

namespace emplace::record {

/// Input of an export. Referenced objects must outlive the call.
struct PlacementExport {
  const OpGraph& graph;
  const std::vector<std::string>& devices;  ///< Device names, indexed by `placement`.
  const Placement& placement;               ///< [ops]
  const DeviceSet* machine = nullptr;       ///< The devices, one per name; null: unknown.
  /// Unpacked content of the graph file; `onnx` writes it back.
  std::span<const std::byte> graph_file = {};
  std::string_view output = {};  ///< Name of the output file; `tensorflow` writes a list for .txt.
};

/// The exported file, and how exactly the format represents the placement.
struct ExportedPlacement {
  std::string content;
  Placement applied;          ///< [ops] Placement that a reader of `content` applies.
  std::size_t moved_ops = 0;  ///< Ops whose device differs from the given placement; 0: exact.
};

/// "csv, dot, …", in table order.
std::string placement_formats();

/// The content of the file. Errors (kInvalid): an unknown format, with a list of the known ones; devices or
/// a graph that the format cannot represent.
Result<ExportedPlacement> export_placement(std::string_view format, const PlacementExport& what);

}  // namespace emplace::record

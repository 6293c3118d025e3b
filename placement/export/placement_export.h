#pragma once
/// Exports a placement in the formats of other tools: docs/guide/export.md.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"
#include "graph/open_dims.h"
#include "placement/machine/device.h"
#include "placement/placement.h"

namespace emplace::interop {

/// Input of an export. Referenced objects must outlive the call.
struct PlacementExport {
  const OpGraph& graph;
  const std::vector<std::string>& devices;  ///< Device names, indexed by `placement`.
  const Placement& placement;               ///< [ops]
  const DeviceSet* machine = nullptr;       ///< The devices, one per name; null: unknown.
  /// Unpacked content of the graph file; `onnx` and `submodels` write it back.
  std::span<const std::byte> graph_file = {};
  std::string_view output = {};             ///< Name of the output file; `tensorflow` writes a list for .txt.
  std::filesystem::path graph_folder = {};  ///< Folder of the graph file; its external data is there.
  OpenDims dims = {};                       ///< Sizes that the graph was read with.
  /// Names of the modules and tensors of a PyTorch model, in its order; empty: unknown.
  std::vector<std::string> modules = {};
  /// Order of the placement file, in which `csv` lists the ops; empty: by id.
  std::span<const OpId> order = {};
};

/// The exported file, and how exactly the format represents the placement.
struct ExportedPlacement {
  std::string content;
  Placement applied;          ///< [ops] Placement that a reader of `content` applies.
  std::size_t moved_ops = 0;  ///< Ops whose device differs from the given placement; 0: exact.
  /// Name of the file of `content` in the folder `output`, whose other files are written; empty: `content` is
  /// the file `output` itself.
  std::string file = {};
  std::size_t parts = 0;  ///< Parts or stages that run one after the other; 0: not in this format.
};

/// "csv, dot, …", in table order.
std::string placement_formats();

/// The content of the file; `submodels` also writes the other files of its folder. Errors (kInvalid): an
/// unknown format, with a list of the known ones; devices or a graph that the format cannot represent; a
/// module tree of another model; kIo.
Result<ExportedPlacement> export_placement(std::string_view format, const PlacementExport& what);

}  // namespace emplace::interop

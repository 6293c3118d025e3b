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
#include "placement/strategy.h"

namespace emplace::interop {

class ModuleSearch;

/// Input of an export. Referenced objects must outlive the call.
struct PlacementExport {
  const OpGraph& graph;
  const std::vector<std::string>& devices;  ///< Device names, indexed by `placement`.
  const Placement& placement;               ///< [ops]
  const DeviceSet* machine = nullptr;       ///< The devices, one per name; null: unknown.
  /// Unpacked content of the graph file; `onnx` and `submodels` write it back, `openvino` looks for names of
  /// outputs.
  std::span<const std::byte> graph_file = {};
  std::string_view output = {};             ///< Name of the output file; `tensorflow` writes a list for .txt.
  std::filesystem::path graph_folder = {};  ///< Folder of the graph file; its external data is there.
  OpenDims dims = {};                       ///< Sizes that the graph was read with.
  /// Names of the modules and tensors of a PyTorch model, in its order; "a = b" is a tensor a that is the
  /// tensor b. Empty: unknown.
  std::vector<std::string> modules = {};
  /// Order of the placement file, in which `csv` lists the ops; empty: by id.
  std::span<const OpId> order = {};
  /// Finds device maps and stages; null: they follow the placement, whose devices then are the only ones.
  /// Needs the machine.
  ModuleSearch* search = nullptr;
  bool keep_exact = true;  ///< A placement that the format can represent is exported as it is, not searched.
  std::size_t stages = 0;  ///< Stages of a pipeline; 0: as many as devices are in use.
  Strategy strategy = {};  ///< Steps of the placement; `pipelining` writes their schedule.
};

/// A stage of a pipeline.
struct ExportedStage {
  std::size_t start = 0;  ///< Number of its module among the starts of the format.
  std::string starts_at;  ///< The module before which the model is cut; empty for the first stage.
  DeviceId device{};
  std::size_t ops = 0;           ///< Forward ops.
  double time_s = 0;             ///< Time of all its ops on its device [s]; 0 without the machine.
  std::int64_t state_bytes = 0;  ///< Parameters, buffers and optimizer state, with copies of shared ones [B].
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
  /// What a reader of `content` does otherwise than the placement, besides the moved ops: one line each.
  std::vector<std::string> losses = {};
  std::vector<ExportedStage> stages = {};  ///< Stages of a pipeline, in order.
  bool exact() const { return moved_ops == 0 && losses.empty(); }
};

/// "csv, dot, …", in table order.
std::string placement_formats();

/// The content of the file; `submodels` also writes the other files of its folder. Errors (kInvalid): an
/// unknown format, with a list of the known ones; devices or a graph that the format cannot represent; a
/// module tree of another model; kIo.
Result<ExportedPlacement> export_placement(std::string_view format, const PlacementExport& what);

}  // namespace emplace::interop

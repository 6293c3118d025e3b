#pragma once
/// A placement in the forms that other tools read: docs/guide/export.md.

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

/// What is exported. References outlive the call.
struct PlacementExport {
  const OpGraph& graph;
  const std::vector<std::string>& devices;  ///< Their names, which `placement` counts.
  const Placement& placement;               ///< [ops]
  const DeviceSet* machine = nullptr;       ///< The devices themselves, as many, where they are known.
  std::span<const std::byte> graph_file =
      {};                        ///< What the graph was read from, unpacked; `onnx` writes it back.
  std::string_view output = {};  ///< Name of the file to be: `tensorflow` writes a list for .txt.
};

/// What a format can say of it.
struct ExportedPlacement {
  std::string content;
  Placement applied;          ///< [ops] what a reader of `content` will place.
  std::size_t moved_ops = 0;  ///< Where that is another device: 0 is exact.
};

/// "csv, dot, …" in the order of the table.
std::string placement_formats();

/// The content of the file. Errors (kInvalid): a format that is none, naming those there are; devices that
/// the format has no word for; a graph that the format does not write.
Result<ExportedPlacement> export_placement(std::string_view format, const PlacementExport& what);

}  // namespace emplace::record

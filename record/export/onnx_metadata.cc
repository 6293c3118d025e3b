// Export as the ONNX model itself, with a device on each node.

#include <onnx.pb.h>

#include <limits>

#include "base/text/words.h"
#include "graph/formats/onnx/onnx_functions.h"
#include "graph/graph_file.h"
#include "record/export/placement_formats.h"

namespace emplace::record {
namespace {

constexpr std::string_view kKey = "emplace.device", kOurs = "emplace.";

/// Replaces the device written by an earlier export.
void set_node_device(onnx::NodeProto& node, const std::string& device) {
  google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto> kept;
  for (const auto& entry : node.metadata_props())
    if (entry.key() != kKey) *kept.Add() = entry;
  auto& entry = *kept.Add();
  entry.set_key(std::string{kKey});
  entry.set_value(device);
  node.mutable_metadata_props()->Swap(&kept);
}

}  // namespace

Result<ExportedPlacement> placement_onnx(const PlacementExport& what) {
  onnx::ModelProto model;
  if (what.graph_file.empty() || recognise_format(what.graph_file, "") != GraphFormat::kOnnx ||
      what.graph_file.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !model.ParseFromArray(what.graph_file.data(), static_cast<int>(what.graph_file.size())))
    return invalid("--to onnx", "needs an ONNX model, and the given graph is not one",
                   "pass the placed .onnx file as --graph");
  // Same transformation as in the reader: function calls are inlined; state comes first, then one op per
  // node in file order (graph/formats/onnx/onnx.h).
  EMPLACE_TRY(onnx_io::inline_functions(model, "--graph"));
  model.clear_functions();
  const auto nodes = static_cast<std::size_t>(model.graph().node_size());
  if (nodes > what.graph.num_ops()) return invalid("--to onnx", "the graph does not match the ONNX file");
  const std::size_t first = what.graph.num_ops() - nodes;
  google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto> props;
  for (const auto& entry : model.metadata_props())
    if (!entry.key().starts_with(kOurs)) *props.Add() = entry;
  const auto note = [&](const std::string& key, const std::string& value) {
    auto& entry = *props.Add();
    entry.set_key(key);
    entry.set_value(value);
  };
  note("emplace.graph_sha256", graph_sha256(what.graph));
  for (std::size_t i = 0; i < what.graph.num_ops(); ++i) {
    const OpId op{static_cast<std::uint32_t>(i)};
    const std::string& device = what.devices[index(what.placement[i])];
    note(std::string{kKey} + ":" + std::string{what.graph.name(op)}, device);
    if (i < first) continue;
    onnx::NodeProto& node = *model.mutable_graph()->mutable_node(static_cast<int>(i - first));
    // Differs from the file only where a name was missing or repeated.
    node.set_name(std::string{what.graph.name(op)});
    set_node_device(node, device);
  }
  model.mutable_metadata_props()->Swap(&props);
  return exported(what, model.SerializeAsString(), what.placement);
}

}  // namespace emplace::record

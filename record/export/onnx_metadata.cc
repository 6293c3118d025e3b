// The model itself, each node with its device.

#include <google/protobuf/unknown_field_set.h>
#include <onnx/onnx_pb.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/text/words.h"
#include "graph/graph_file.h"
#include "record/export/placement_formats.h"

namespace emplace::record {
namespace {

constexpr std::string_view kKey = "emplace.device", kOurs = "emplace.";
// NodeProto.metadata_props, which IR version 10 brought; the libonnx of Debian 12 knows 8 and carries it
// along unread.
constexpr int kNodeMetadata = 9;

/// Replaces what an earlier export said.
void note_on_node(onnx::NodeProto& node, const std::string& device) {
  google::protobuf::UnknownFieldSet& fields = *node.mutable_unknown_fields();
  google::protobuf::UnknownFieldSet kept;
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    onnx::StringStringEntryProto entry;
    const bool old = field.number() == kNodeMetadata &&
                     field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
                     entry.ParseFromString(field.length_delimited()) && entry.key() == kKey;
    if (!old) kept.AddField(field);
  }
  onnx::StringStringEntryProto entry;
  entry.set_key(std::string{kKey});
  entry.set_value(device);
  kept.AddLengthDelimited(kNodeMetadata, entry.SerializeAsString());
  fields.Swap(&kept);
}

}  // namespace

Result<ExportedPlacement> placement_onnx(const PlacementExport& what) {
  onnx::ModelProto model;
  if (what.graph_file.empty() || recognise_format(what.graph_file, "") != GraphFormat::kOnnx ||
      what.graph_file.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !model.ParseFromArray(what.graph_file.data(), static_cast<int>(what.graph_file.size())))
    return invalid("--to onnx", "writes an ONNX model back, and the graph given is none",
                   "give the .onnx file that was placed as --graph");
  // As its reader has it: state first, then an op per node, in the file's order (graph/formats/onnx.h).
  const auto nodes = static_cast<std::size_t>(model.graph().node_size());
  if (nodes > what.graph.num_ops()) return invalid("--to onnx", "the graph is not that of the ONNX file");
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
    node.set_name(std::string{what.graph.name(op)});  // Another only if it was missing or repeated.
    note_on_node(node, device);
  }
  model.mutable_metadata_props()->Swap(&props);
  return exported(what, model.SerializeAsString(), what.placement);
}

}  // namespace emplace::record

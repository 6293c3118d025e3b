// Export as the ONNX model itself, with a device on each node: as metadata, and as the device configurations
// of IR version 11.

#include <onnx.pb.h>

#include <limits>
#include <set>

#include "base/text/words.h"
#include "graph/formats/graph_file.h"
#include "graph/formats/onnx/onnx_model.h"
#include "placement/export/placement_formats.h"

namespace emplace::interop {
namespace {

constexpr std::string_view kKey = "emplace.device", kOurs = "emplace.", kConfiguration = "emplace";
/// The first IR version with device configurations, and the first whose weights need not be inputs: older
/// files keep their version, because with another one their weights could be overridden.
constexpr std::int64_t kConfiguredVersion = 11, kFreeWeightsVersion = 4;

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

/// Adds our configuration to the model, in place of that of an earlier export.
void add_configuration(const std::vector<std::string>& devices, onnx::ModelProto& model) {
  google::protobuf::RepeatedPtrField<onnx::DeviceConfigurationProto> kept;
  for (const auto& configuration : model.configuration())
    if (configuration.name() != kConfiguration) *kept.Add() = configuration;
  auto& configuration = *kept.Add();
  configuration.set_name(std::string{kConfiguration});
  configuration.set_num_devices(static_cast<std::int32_t>(devices.size()));
  for (const std::string& device : devices) configuration.add_device(device);
  model.mutable_configuration()->Swap(&kept);
  if (model.ir_version() >= kFreeWeightsVersion && model.ir_version() < kConfiguredVersion)
    model.set_ir_version(kConfiguredVersion);
}

/// The node runs on one device: all of its inputs and outputs are whole on that device.
void set_node_configuration(onnx::NodeProto& node, std::int64_t device) {
  google::protobuf::RepeatedPtrField<onnx::NodeDeviceConfigurationProto> kept;
  for (const auto& configuration : node.device_configurations())
    if (configuration.configuration_id() != kConfiguration) *kept.Add() = configuration;
  auto& configuration = *kept.Add();
  configuration.set_configuration_id(std::string{kConfiguration});
  std::set<std::string_view> named;
  for (const auto* values : {&node.input(), &node.output()}) {
    for (const std::string& value : *values) {
      if (value.empty() || !named.insert(value).second) continue;
      auto& sharding = *configuration.add_sharding_spec();
      sharding.set_tensor_name(value);
      sharding.add_device(device);
    }
  }
  node.mutable_device_configurations()->Swap(&kept);
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
    set_node_configuration(node, static_cast<std::int64_t>(index(what.placement[i])));
  }
  model.mutable_metadata_props()->Swap(&props);
  add_configuration(what.devices, model);
  return exported(what, model.SerializeAsString(), what.placement);
}

}  // namespace emplace::interop

// Device lists per op, for TensorFlow and OpenVINO.

#include <fmt/core.h>
#include <onnx.pb.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text/words.h"
#include "graph/formats/graph_file.h"
#include "graph/formats/onnx/onnx_model.h"
#include "placement/export/placement_formats.h"

namespace emplace::interop {
namespace {

using nlohmann::json;

/// "/job:localhost/replica:0/task:0/device:GPU:0"; with several hosts each one is a task of the job
/// "worker".
std::string tensorflow_name(const FrameworkDevice& device, bool one_host) {
  return fmt::format("{}/replica:0/task:{}/device:{}{}", one_host ? "/job:localhost" : "/job:worker",
                     device.host, device.gpu ? "GPU:" : "CPU:", device.number);
}

/// True for a node that the TensorFlow reader inserts for edges (docs/reference/file_formats.md); it is not
/// in any file.
bool is_join(const OpGraph& graph, OpId op) {
  return graph.name(op).starts_with("emplace/join#") &&
         graph.attrs_json(op).find("\"join\":true") != std::string_view::npos;
}

/// Names of nodes in OpenVINO that differ from those of the ops: a node without a name, and one that makes an
/// output of the model, has the name of that tensor ("y_1" if a node is called "y"). Visits (op, name).
template <class Visit>
Result<Unit> visit_openvino_names(const PlacementExport& what, Visit visit) {
  onnx::ModelProto model;
  if (what.graph_file.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !model.ParseFromArray(what.graph_file.data(), static_cast<int>(what.graph_file.size())))
    return invalid("--to openvino", "the ONNX model cannot be read");
  EMPLACE_TRY(onnx_io::inline_functions(model, "--graph"));
  const onnx::GraphProto& graph = model.graph();
  const auto nodes = static_cast<std::size_t>(graph.node_size());
  if (nodes > what.graph.num_ops()) return invalid("--to openvino", "the graph does not match the ONNX file");
  std::set<std::string_view> outputs, names;
  for (const auto& output : graph.output()) outputs.insert(output.name());
  for (const auto& node : graph.node()) names.insert(node.name());
  for (std::size_t k = 0; k < nodes; ++k) {
    const onnx::NodeProto& node = graph.node(static_cast<int>(k));
    const OpId op{static_cast<std::uint32_t>(what.graph.num_ops() - nodes + k)};  // After the state.
    for (const std::string& tensor : node.output())
      if (!tensor.empty() && (node.name().empty() || outputs.contains(tensor)))
        visit(op, names.contains(tensor) && node.name() != tensor ? tensor + "_1" : tensor);
  }
  return Unit{};
}

}  // namespace

Result<ExportedPlacement> placement_tensorflow(const PlacementExport& what) {
  EMPLACE_TRY_ASSIGN(const auto devices, framework_devices(what));
  bool one_host = true;
  for (const FrameworkDevice& device : devices) one_host = one_host && device.host == 0;
  std::vector<std::string> names;
  names.reserve(devices.size());
  for (const FrameworkDevice& device : devices) names.push_back(tensorflow_name(device, one_host));
  if (!what.output.ends_with(".txt")) {
    json object = json::object();
    for (std::uint32_t i = 0; i < what.graph.num_ops(); ++i)
      if (!is_join(what.graph, OpId{i}))
        object[std::string{what.graph.name(OpId{i})}] = names[index(what.placement[i])];
    return exported(what, file_text(object), what.placement);
  }
  std::string list;
  for (std::uint32_t i = 0; i < what.graph.num_ops(); ++i) {
    const std::string_view name = what.graph.name(OpId{i});
    if (is_join(what.graph, OpId{i})) continue;
    if (name.find_first_of("\t\n\r") != std::string_view::npos)
      return invalid("op '" + printable(name, 80) + "'",
                     "its name contains a tab or a line end, which the list format cannot represent",
                     "use an -o file name ending in .json");
    list.append(name).append("\t").append(names[index(what.placement[i])]).append("\n");
  }
  return exported(what, std::move(list), what.placement);
}

Result<ExportedPlacement> placement_openvino(const PlacementExport& what) {
  EMPLACE_TRY_ASSIGN(const auto devices, framework_devices(what));
  EMPLACE_TRY_ASSIGN(const auto replacement, one_cpu(what, devices, "openvino"));
  json object = json::object();
  Placement applied;
  const auto word = [&](OpId op) {
    const FrameworkDevice& device = devices[index(applied[index(op)])];
    return device.gpu ? fmt::format("GPU.{}", device.number) : "CPU";
  };
  for (std::uint32_t i = 0; i < what.graph.num_ops(); ++i) {
    applied.push_back(replacement[index(what.placement[i])]);
    object[std::string{what.graph.name(OpId{i})}] = word(OpId{i});
  }
  std::vector<std::string> losses;
  if (!what.graph_file.empty() && recognise_format(what.graph_file, "") == GraphFormat::kOnnx) {
    EMPLACE_TRY(
        visit_openvino_names(what, [&](OpId op, const std::string& name) { object[name] = word(op); }));
  } else if (what.graph.source().starts_with("onnx")) {
    losses.emplace_back(
        "OpenVINO calls the nodes that make outputs like these; the names are in the .onnx file: give it as "
        "--graph");
  }
  auto made = exported(what, file_text(object), std::move(applied));
  made.losses = std::move(losses);
  return made;
}

}  // namespace emplace::interop

// Device lists per op, for TensorFlow and OpenVINO.

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/text/words.h"
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
  for (std::uint32_t i = 0; i < what.graph.num_ops(); ++i) {
    applied.push_back(replacement[index(what.placement[i])]);
    const FrameworkDevice& device = devices[index(applied.back())];
    object[std::string{what.graph.name(OpId{i})}] = device.gpu ? fmt::format("GPU.{}", device.number) : "CPU";
  }
  return exported(what, file_text(object), std::move(applied));
}

}  // namespace emplace::interop

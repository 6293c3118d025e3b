#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text/words.h"
#include "placement/export/placement_formats.h"
#include "placement/machine/cost_model.h"

namespace emplace::interop {
namespace {

/// Parses "gpu:1" into a GPU with number 1.
bool by_name(std::string_view name, FrameworkDevice& device) {
  const std::size_t colon = name.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view kind = name.substr(0, colon);
  device.gpu = kind == "gpu" || kind == "cuda" || kind == "accel";
  const char* last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + colon + 1, last, device.number);
  return (device.gpu || kind == "cpu") && error == std::errc{} && end == last;
}

std::vector<bool> in_use(const PlacementExport& what) {
  std::vector<bool> used(what.devices.size(), false);
  for (const DeviceId device : what.placement) used[index(device)] = true;
  return used;
}

}  // namespace

Result<std::vector<FrameworkDevice>> framework_devices(const PlacementExport& what) {
  std::vector<FrameworkDevice> devices(what.devices.size());
  std::map<std::string, std::uint32_t> hosts;
  std::map<std::pair<std::uint32_t, bool>, std::uint32_t> counts;
  const std::vector<bool> used = in_use(what);
  if (what.machine != nullptr) {
    for (const Device& device : what.machine->devices())
      hosts.emplace(device.host, static_cast<std::uint32_t>(hosts.size()));
  }
  for (std::size_t d = 0; d < devices.size(); ++d) {
    FrameworkDevice& device = devices[d];
    const bool named = by_name(what.devices[d], device);
    if (what.machine != nullptr) {
      const auto id = static_cast<DeviceId>(d);
      device.gpu = !what.machine->is_cpu(id);
      device.host = hosts.at((*what.machine)[id].host);
      const std::uint32_t number = counts[{device.host, device.gpu}]++;
      if (!named || hosts.size() > 1) device.number = number;
    } else if (!named && used[d]) {
      return invalid("device '" + printable(what.devices[d], 60) + "'", "the name is neither cpu:N nor gpu:N",
                     "give the device file with --devices");
    }
  }
  return devices;
}

Result<std::vector<DeviceId>> one_cpu(const PlacementExport& what,
                                      const std::vector<FrameworkDevice>& devices,
                                      std::string_view framework) {
  const std::vector<bool> used = in_use(what);
  std::vector<DeviceId> replacement;
  std::size_t cpu = devices.size(), first = devices.size();
  for (std::size_t d = 0; d < devices.size(); ++d) {
    replacement.push_back(static_cast<DeviceId>(d));
    if (!used[d]) continue;
    if (first == devices.size()) first = d;
    if (devices[d].host != devices[first].host)
      return invalid("device '" + printable(what.devices[d], 60) + "'",
                     "is not on the same host as '" + printable(what.devices[first], 60) + "'; " +
                         std::string{framework} + " supports a single host",
                     "place on the devices of one host");
    if (!devices[d].gpu && cpu == devices.size()) cpu = d;
    if (!devices[d].gpu) replacement[d] = static_cast<DeviceId>(cpu);
  }
  return replacement;
}

std::vector<double> op_weights(const PlacementExport& what) {
  const OpGraph& graph = what.graph;
  std::optional<CostTable> costs;
  if (what.machine != nullptr) costs.emplace(graph, *what.machine);
  std::vector<double> weights;
  for (std::uint32_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op{i};
    double weight = 1;
    if (costs) {
      weight += static_cast<double>(costs->ns(what.placement[i], op));
    } else {
      weight += static_cast<double>(graph.flops(op)) +
                static_cast<double>(memory_traffic_bytes(graph, op, classify(graph, op)));
    }
    weights.push_back(weight);
  }
  return weights;
}

std::string file_text(const nlohmann::json& object) {
  return object.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

ExportedPlacement exported(const PlacementExport& what, std::string content, Placement applied) {
  ExportedPlacement result{.content = std::move(content), .applied = std::move(applied)};
  for (std::size_t i = 0; i < what.placement.size(); ++i)
    if (result.applied[i] != what.placement[i]) ++result.moved_ops;
  return result;
}

}  // namespace emplace::interop

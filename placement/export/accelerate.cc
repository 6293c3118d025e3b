// Export as a device map of Hugging Face's accelerate: modules of a PyTorch model on devices. The longest
// matching name decides.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "placement/export/module_search.h"
#include "placement/export/module_units.h"
#include "placement/export/placement_formats.h"

namespace emplace::interop {
namespace {

using nlohmann::json;

/// [units] The device with most of each unit's time; if times are unknown, with most of its work and traffic.
std::vector<DeviceId> most_used(const PlacementExport& what, const ModuleUnits& units,
                                const std::vector<DeviceId>& replacement) {
  const std::vector<double> weights = op_weights(what);
  std::map<std::pair<std::uint32_t, DeviceId>, double> votes;
  for (std::size_t i = 0; i < weights.size(); ++i)
    votes[{units.unit_of_op()[i], replacement[index(what.placement[i])]}] += weights[i];
  std::vector<double> most(units.size(), 0);
  std::vector<DeviceId> devices(units.size());
  for (const auto& [key, weight] : votes) {
    if (weight <= most[key.first]) continue;
    most[key.first] = weight;
    devices[key.first] = key.second;
  }
  return devices;
}

Placement applied(const ModuleUnits& units, const std::vector<DeviceId>& devices) {
  Placement placement;
  for (const std::uint32_t unit : units.unit_of_op()) placement.push_back(devices[unit]);
  return placement;
}

/// The devices of the host in use, with one CPU.
std::vector<DeviceId> choice_of(const PlacementExport& what, const std::vector<FrameworkDevice>& devices,
                                const std::vector<DeviceId>& replacement) {
  const std::uint32_t host = devices[index(what.placement.front())].host;
  std::optional<std::size_t> cpu;
  for (const DeviceId device : what.placement)
    if (!devices[index(device)].gpu) cpu = index(replacement[index(device)]);
  std::vector<DeviceId> choice;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (devices[d].host != host) continue;
    if (!devices[d].gpu && !cpu) cpu = d;
    if (devices[d].gpu || d == *cpu) choice.push_back(static_cast<DeviceId>(d));
  }
  return choice;
}

/// accelerate runs the model's own code on the GPU in use with the lowest number: what is tied to it is
/// there.
bool is_on_main(DeviceId main, std::span<const DeviceId> all, const std::vector<FrameworkDevice>& devices) {
  const FrameworkDevice& own = devices[index(main)];
  return std::all_of(all.begin(), all.end(), [&](DeviceId device) {
    const FrameworkDevice& other = devices[index(device)];
    return !other.gpu || (own.gpu && own.number <= other.number);
  });
}

}  // namespace

Result<ExportedPlacement> placement_accelerate(const PlacementExport& what) {
  EMPLACE_TRY_ASSIGN(const auto devices, framework_devices(what));
  EMPLACE_TRY_ASSIGN(const auto replacement, one_cpu(what, devices, "accelerate"));
  EMPLACE_TRY_ASSIGN(const ModuleUnits units, ModuleUnits::make(what));
  std::vector<DeviceId> chosen = most_used(what, units, replacement);
  const bool named = !what.modules.empty() || !what.graph.source().starts_with("onnx");
  if (const auto entries = units.entries(chosen);
      !named && !(entries.size() == 1 && entries.front().first.empty()))
    return invalid(
        "--to accelerate",
        "an ONNX model does not name every module of its PyTorch model (batch norms are folded away)",
        "give the names of its modules with --modules FILE");
  if (named && what.search != nullptr && !(what.keep_exact && applied(units, chosen) == what.placement)) {
    const auto main = units.main();
    EMPLACE_TRY_ASSIGN(chosen, what.search->place({.unit_of_op = units.unit_of_op(),
                                                   .units = units.size(),
                                                   .devices = choice_of(what, devices, replacement),
                                                   .runs =
                                                       [&](std::span<const DeviceId> all) {
                                                         return !main || is_on_main(all[*main], all, devices);
                                                       }},
                                                  chosen));
  }
  const auto entries = units.entries(chosen);
  json object = json::object();
  bool gpu = false, cpu = false;
  for (const auto& [name, device] : entries) {
    const FrameworkDevice& word = devices[index(device)];
    (word.gpu ? gpu : cpu) = true;
    object[name] = word.gpu ? json(word.number) : json("cpu");
  }
  auto made = exported(what, file_text(object), applied(units, chosen));
  if (gpu && cpu)
    made.losses.emplace_back(
        "accelerate keeps the weights of modules on 'cpu' there, and copies them to a GPU to run them");
  return made;
}

}  // namespace emplace::interop

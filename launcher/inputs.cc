#include "launcher/inputs.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/text/words.h"
#include "base/units.h"
#include "graph/graph_file.h"
#include "placement/device_file.h"

namespace emplace::launcher {
namespace {

namespace fs = std::filesystem;

/// Errors (kIo) if there is no such file, naming the one beside it that may have been meant.
Result<Unit> must_exist(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error)) return Unit{};
  const fs::path wanted{path};
  const fs::path folder = wanted.has_parent_path() ? wanted.parent_path() : fs::path{"."};
  std::vector<std::string> names;
  for (fs::directory_iterator it{folder, error}, end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  const std::vector<std::string_view> views{names.begin(), names.end()};
  const std::string_view near = nearest_word(wanted.filename().string(), views);
  std::string text = printable(path) + ": there is no such file";
  if (!near.empty()) text += "; did you mean '" + printable((wanted.parent_path() / near).string()) + "'?";
  return Error{Errc::kIo, std::move(text)};
}

}  // namespace

Result<OpGraph> open_graph(const std::string& path) {
  if (auto there = must_exist(path); !there) return there.error();
  return load_graph(path);
}

Result<DeviceSet> open_devices(const std::string& path, double reserve_share) {
  if (auto there = must_exist(path); !there) return there.error();
  return load_devices(path, reserve_share);
}

Result<Inputs> open_inputs(const std::string& graph_path, const std::string& devices_path,
                           const std::string& reserve) {
  double share = 0;
  if (!reserve.empty()) {
    const auto parsed = parse_share(reserve);
    if (!parsed) return invalid("--reserve", parsed.error().context);
    share = *parsed;
  }
  auto devices = open_devices(devices_path, share);  // The quicker one first: its errors come at once.
  if (!devices) return devices.error();
  auto graph = open_graph(graph_path);
  if (!graph) return graph.error();
  auto constraints = Constraints::make(*graph, *devices);
  if (!constraints) return invalid(printable(graph_path), constraints.error().context);
  return Inputs{std::move(*graph), std::move(*devices), std::move(*constraints)};
}

Result<SimulatorOptions> simulator_options(const std::string& dispatch) {
  if (dispatch == "program") return SimulatorOptions{.dispatch = Dispatch::kProgram};
  if (dispatch == "fifo") return SimulatorOptions{.dispatch = Dispatch::kFifo};
  return invalid("--dispatch '" + printable(dispatch, 40) + "'", "is unknown", "use program or fifo");
}

Result<std::uint32_t> parse_whole(std::string_view option, const std::string& text, std::uint32_t low,
                                  std::uint32_t high) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value >= low && value <= high) return value;
  return invalid(std::string{option} + " '" + printable(text, 40) + "'", "is out of range",
                 "use a whole number from " + std::to_string(low) + " to " + std::to_string(high));
}

std::vector<std::string> device_names(const DeviceSet& devices) {
  std::vector<std::string> names;
  for (const Device& device : devices.devices()) names.push_back(device.name);
  return names;
}

std::string file_name(const std::string& path) { return fs::path{path}.filename().string(); }

}  // namespace emplace::launcher

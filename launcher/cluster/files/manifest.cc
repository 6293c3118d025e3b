#include "launcher/cluster/files/manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/text/words.h"
#include "launcher/cluster/cluster.h"
#include "launcher/inputs/inputs.h"
#include "launcher/settings/placers.h"
#include "launcher/terminal/build_info.h"

namespace emplace::launcher {
namespace {

constexpr const char* kConfig = "config.toml";
constexpr const char* kClusterFile = "cluster.toml";

/// Returns whether a path is relative and has no "..".
bool stays_within(const std::filesystem::path& path) {
  if (path.empty() || path.is_absolute()) return false;
  for (const auto& part : path)
    if (part == ".." || part == ".") return false;
  return true;
}

/// Returns the cluster file for other machines, without environments: the launcher passes a node its
/// environment, which may contain secrets.
Result<std::string> cluster_there(const std::filesystem::path& file) {
  EMPLACE_TRY_ASSIGN(const auto text, read_file(file));
  EMPLACE_TRY_ASSIGN(auto cluster, parse_cluster({reinterpret_cast<const char*>(text.data()), text.size()},
                                                 printable(file.filename().string())));
  cluster.head.environment.clear();
  for (Cluster::Node& node : cluster.nodes) node.environment.clear();
  return to_toml(cluster);
}

/// Returns a file's name in a form that is valid in configs and messages, which are UTF-8.
std::string name_there(const std::filesystem::path& file) {
  std::string name = without_controls(file.filename().string());
  std::replace(name.begin(), name.end(), '\\', '_');
  return name;
}

}  // namespace

Result<Manifest> make_manifest(const RunConfig& config, const actors::Task& task,
                               const std::filesystem::path& cluster, const Start& start) {
  Manifest manifest;
  RunConfig there = config;
  /// Adds a file and returns its path on the remote machine.
  const auto add = [&](const std::filesystem::path& file, const std::string& path) -> Result<std::string> {
    EMPLACE_TRY_ASSIGN(const auto bytes, read_file(file));
    const std::string sha256 = sha256_hex(bytes);
    manifest.facts.files.push_back({path, sha256, bytes.size()});
    manifest.places.emplace(sha256, file);
    return path;
  };
  EMPLACE_TRY_ASSIGN(const auto graphs, graph_files(config));
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    EMPLACE_TRY_ASSIGN(const auto path, add(graphs[i], fmt::format("files/{}/{}", i, name_there(graphs[i]))));
    if (config.input.graphs.empty()) {
      there.input.graph = path;
    } else {
      if (i == 0) there.input.graphs.clear();
      there.input.graphs.push_back(path);
    }
  }
  if (!config.input.devices.empty() && machine_form(config.input.devices) == MachineForm::kHere)
    return invalid("input.devices", "= \"here\" is this machine, which other machines cannot look at",
                   "name a device file, or e.g. \"h100 x 4, epyc9654\"");
  if (machine_form(config.input.devices) == MachineForm::kFile) {  // A text travels as it is.
    const std::filesystem::path devices = config.input.devices;
    EMPLACE_TRY_ASSIGN(there.input.devices, add(devices, "files/" + name_there(devices)));
  }
  if (!config.input.rules.empty()) {
    const std::filesystem::path rules = config.input.rules;
    EMPLACE_TRY_ASSIGN(there.input.rules, add(rules, "files/" + name_there(rules)));
  }
  if (start.name == kBestHeuristic) {
    for (const actors::TaskGraph& one : task.graphs) {
      const std::string path = kept_path({}, kStartingPlacement, task, one).string();
      EMPLACE_TRY(add(start.directory / path, path));
    }
  }
  // Only the learner reads it; check_elsewhere() keeps that local unless every machine has it.
  if (there.run.policy != kShippedPolicy) there.run.policy.clear();
  there.run.dir.clear();
  there.executor.model.clear();  // Each machine's own command line names the code that it imports.
  manifest.facts.version = build_info().version;
  manifest.facts.start = start.name;
  manifest.facts.run = start.run_id;
  manifest.facts.config = to_toml(there, false);
  manifest.facts.more_starts = start.name != config.run.starts.back();
  if (cluster.empty()) return manifest;
  EMPLACE_TRY_ASSIGN(manifest.facts.cluster, cluster_there(cluster));
  return manifest;
}

actors::FileReader reader_of(const Manifest& manifest) {
  return [places = manifest.places](const messages::FileFacts& file) -> Result<Bytes> {
    auto bytes = read_file(places.at(file.sha256));
    if (bytes && sha256_hex(*bytes) != file.sha256)
      return invalid(printable(file.path), "has changed since the run started", "restart the run");
    return bytes;
  };
}

Result<Unit> unpack_manifest(const messages::ManifestDelivered& manifest, const FolderStore& store,
                             const std::filesystem::path& folder) {
  std::error_code failure;
  for (const messages::FileFacts& file : manifest.files) {
    if (!stays_within(file.path) || file.path == kConfig || file.path == kClusterFile)
      return invalid("the head's manifest", "contains an invalid path '" + printable(file.path, 80) + "'");
    const std::filesystem::path at = folder / file.path;
    std::filesystem::create_directories(at.parent_path(), failure);
    std::filesystem::remove(at, failure);
    std::filesystem::create_symlink(std::filesystem::absolute(store.path_of(file)), at, failure);
    if (failure) return Error{Errc::kIo, printable_path(at) + ": " + failure.message()};
  }
  EMPLACE_TRY(write_file(folder / kConfig, manifest.config));
  if (manifest.cluster.empty()) return Unit{};
  return write_file(folder / kClusterFile, manifest.cluster);
}

}  // namespace emplace::launcher

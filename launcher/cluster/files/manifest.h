#pragma once
/// The manifest of a run for remote nodes: its settings, and its files by hash.

#include <filesystem>
#include <map>
#include <string>

#include "launcher/cluster/files/file_store.h"
#include "launcher/settings/config.h"
#include "launcher/settings/start.h"
#include "messages/library.h"

namespace emplace::launcher {

struct Manifest {
  messages::ManifestDelivered facts;
  std::map<std::string, std::filesystem::path> places;  ///< Local paths of its files, by hash.
};

/// Makes the manifest of a start. `task`: its graphs, for the paths of starting placements. `cluster`: the
/// cluster file; empty: none. Errors: kIo, kInvalid.
Result<Manifest> make_manifest(const RunConfig& config, const actors::Task& task,
                               const std::filesystem::path& cluster, const Start& start);

/// Returns a reader of the manifest's files, which fails for a file that has changed since.
actors::FileReader reader_of(const Manifest& manifest);

/// Writes config.toml, cluster.toml and links to the files into a folder, for load_config() and
/// load_cluster(). Errors: kIo; kInvalid for a path outside of the folder.
Result<Unit> unpack_manifest(const messages::ManifestDelivered& manifest, const FolderStore& store,
                             const std::filesystem::path& folder);

}  // namespace emplace::launcher

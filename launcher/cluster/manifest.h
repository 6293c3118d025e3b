#pragma once
/// A run as a machine elsewhere is given it: settings and files by hash, out of one folder and into another.

#include <filesystem>
#include <map>
#include <string>

#include "launcher/cluster/file_store.h"
#include "launcher/cluster/wiring.h"
#include "messages/library.h"

namespace emplace::launcher {

struct Manifest {
  messages::ManifestDelivered facts;
  std::map<std::string, std::filesystem::path> places;  ///< Of its files here, by hash.
};

/// What a node elsewhere needs of this start; `task` tells where one from baselines keeps them. `cluster`:
/// its file; empty: none. Errors: kIo, kInvalid.
Result<Manifest> make_manifest(const RunConfig& config, const actors::Task& task,
                               const std::filesystem::path& cluster, const Start& start);

/// Reads its files as they were when it was made.
actors::FileReader reader_of(const Manifest& manifest);

/// Lays out config.toml, cluster.toml and links to the files in a folder, as load_config and load_cluster
/// want them. Errors: kIo; kInvalid: a path that leads out of the folder.
Result<Unit> unpack_manifest(const messages::ManifestDelivered& manifest, const FolderStore& store,
                             const std::filesystem::path& folder);

}  // namespace emplace::launcher

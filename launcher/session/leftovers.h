#pragma once
/// Cleanup of files that must not outlive the processes of a run.

#include <filesystem>

#include "launcher/cluster/hosts/topology.h"

namespace emplace::launcher {

/// Removes what killed processes leave behind: partial files and the head's sockets. @pre all have ended.
void remove_leftovers(const std::filesystem::path& directory, const Topology& topology);

/// Removes the files of a run that could not start, so that a retry finds the directory as it was. Keeps a
/// run that has episodes or cannot be read.
void remove_failed_start(const std::filesystem::path& directory);

}  // namespace emplace::launcher

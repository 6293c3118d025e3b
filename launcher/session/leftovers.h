#pragma once
/// Files that must not outlive the processes of a run.

#include <filesystem>
#include <string>

#include "launcher/cluster/topology.h"

namespace emplace::launcher {

/// The file of an ipc endpoint; empty: it is none.
std::filesystem::path socket_of(const std::string& endpoint);

/// What killed processes leave once all have ended: files half-written, the head's sockets.
void remove_leftovers(const std::filesystem::path& directory, const Topology& topology);

/// What was made for a run that could not begin, so that the next try finds the directory as this one did.
void remove_unbegun(const std::filesystem::path& directory);

}  // namespace emplace::launcher

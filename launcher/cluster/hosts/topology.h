#pragma once
/// The processes of a start, with the commands that start them.

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/cluster/cluster.h"
#include "launcher/cluster/supervision/supervised.h"
#include "launcher/settings/start.h"

namespace emplace::launcher {

struct Topology {
  std::filesystem::path config, cluster;  ///< Files that the processes read; `cluster` may be empty.
  std::string endpoint;                   ///< Endpoint of the head; empty: none.
  std::string beside;                     ///< Second endpoint of the head, a local socket; empty: none.
  bool encrypted = false;                 ///< Whether the head has a key.
  runtime::SupervisorOptions supervision;
  std::vector<NodePlan> nodes;  ///< The head first.
  /// Processes that the launcher starts, the head first. Each member is one process, or all processes of one
  /// batch job. Nodes that join by themselves are in no member.
  std::vector<std::vector<NodePlan>> members;
};

/// Errors: those of plan_nodes().
Result<Topology> make_topology(const Cluster& cluster, const RunConfig& config,
                               const std::filesystem::path& directory);

/// Returns the child of a member, for the supervisor.
Child child_of(const std::vector<NodePlan>& member);

/// Returns the program of a member. `endpoint`: the endpoint that the head has bound; `restarts`: number of
/// earlier incarnations. Errors: kIo.
Result<Program> program_of(const Topology& topology, const std::vector<NodePlan>& member, const Start& start,
                           const std::string& endpoint, double budget_left_s, int restarts);

/// Returns the path of this program.
std::string program_path();

}  // namespace emplace::launcher

#pragma once
/// The processes of a start as the launcher starts them: each with the words that make it who it is.

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/cluster/cluster.h"
#include "launcher/cluster/supervised.h"
#include "launcher/cluster/wiring.h"

namespace emplace::launcher {

struct Topology {
  std::filesystem::path config, cluster;  ///< As the processes read them; no cluster: empty.
  std::string endpoint;                   ///< Where the head listens; empty: nowhere.
  std::string beside;                     ///< And where else: for people of this machine.
  bool encrypted = false;                 ///< The head has a key.
  runtime::SupervisorOptions supervision;
  std::vector<NodePlan> nodes;  ///< The head first.
  /// What the launcher starts, the head first: a process each, but for the processes of one batch job. Nodes
  /// that come by themselves are in none.
  std::vector<std::vector<NodePlan>> members;
};

/// Errors: as plan_nodes.
Result<Topology> make_topology(const Cluster& cluster, const RunConfig& config,
                         const std::filesystem::path& directory);

/// What the supervisor has to know of a member.
Child child_of(const std::vector<NodePlan>& member);

/// What a member is started with. `endpoint`: where the head listens by now; `restarts`: lives before
/// this one. Errors: kIo.
Result<Program> program_of(const Topology& topology, const std::vector<NodePlan>& member, const Start& start,
                           const std::string& endpoint, double budget_left_s, int restarts);

/// This program.
std::string program_path();

}  // namespace emplace::launcher

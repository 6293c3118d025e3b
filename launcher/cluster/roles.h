#pragma once
/// Roles of actors in a run, by the names in cluster files.

#include <algorithm>
#include <array>
#include <string_view>

#include "launcher/cluster/cluster.h"

namespace emplace::launcher {

/// Roles in shutdown order: clients before servers.
inline constexpr std::array<std::string_view, 6> kRoles{"sampler", "executor", "learner",
                                                        "tracker", "recorder", "dispatcher"};

inline bool has_role(const Cluster::Node& node, std::string_view role) {
  return std::find(node.roles.begin(), node.roles.end(), role) != node.roles.end();
}
/// Returns whether an actor, by its name, is an executor.
inline bool is_executor(std::string_view actor) { return actor.starts_with("executor/"); }
/// Returns whether a run has exactly one actor of this role.
inline bool is_single(std::string_view role) { return role != "sampler" && role != "executor"; }
/// Returns whether a node has a role with several actors.
inline bool has_many(const Cluster::Node& node) {
  return has_role(node, "sampler") || has_role(node, "executor");
}

}  // namespace emplace::launcher

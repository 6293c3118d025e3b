#pragma once
/// The parts that actors play in a run, as cluster files name them.

#include <algorithm>
#include <array>
#include <string_view>

#include "launcher/cluster/cluster.h"

namespace emplace::launcher {

/// In the order in which they are ended: who asks before who answers.
inline constexpr std::array<std::string_view, 6> kRoles{"sampler", "executor", "learner",
                                                        "tracker", "recorder", "dispatcher"};

inline bool has_role(const Cluster::Node& node, std::string_view role) {
  return std::find(node.roles.begin(), node.roles.end(), role) != node.roles.end();
}
/// There may be many of it; of the others there is one.
inline bool is_single(std::string_view role) { return role != "sampler" && role != "executor"; }
inline bool has_many(const Cluster::Node& node) {
  return has_role(node, "sampler") || has_role(node, "executor");
}

}  // namespace emplace::launcher

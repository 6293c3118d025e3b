#include "launcher/cluster/cluster.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text/words.h"
#include "launcher/cluster/roles.h"
#include "launcher/settings/placers.h"

namespace emplace::launcher {
namespace {

bool has_elastic(const Cluster& cluster) {
  return std::any_of(cluster.nodes.begin(), cluster.nodes.end(), is_elastic);
}

/// Returns how many actors of a role each node gets; an elastic node gets none.
Result<std::vector<std::uint32_t>> shares(const Cluster& cluster, std::string_view role,
                                          std::uint32_t total) {
  std::vector<std::uint32_t> share(cluster.nodes.size());
  std::uint32_t fixed = 0, open = 0;
  const bool elastic = has_elastic(cluster) && role == "executor";
  for (std::size_t i = 0; i < share.size(); ++i) {
    if (!has_role(cluster.nodes[i], role) || is_elastic(cluster.nodes[i])) continue;
    share[i] = cluster.nodes[i].count;
    fixed += share[i];
    open += share[i] == 0 ? 1 : 0;
  }
  const bool anywhere = fixed + open > 0;
  const std::string key = role == "sampler" ? "pipeline.controllers" : "executor.count";
  if (fixed > total || (anywhere && open == 0 && fixed < total && !elastic))
    return invalid("cluster", fmt::format("its nodes have {} {}s, but {} = {}", fixed, role, key, total),
                   "change count of the nodes, or the config");
  std::uint32_t left = total - fixed;
  for (std::size_t i = 0; i < share.size() && open > 0; ++i) {
    const Cluster::Node& node = cluster.nodes[i];
    if (!has_role(node, role) || node.count > 0 || is_elastic(node)) continue;
    share[i] = left / open;
    left -= share[i];
    --open;
  }
  return share;
}

/// Returns the public key file beside a key file; empty if there is no key file.
std::string public_half(const std::string& key) {
  return key.empty() ? key : std::filesystem::path{key}.replace_extension(".pub").string();
}

std::string actor_of(std::string_view role, std::uint32_t number) {
  return fmt::format("{}/{}", role, number);
}

int end_step(const std::vector<std::string>& actors) {
  int step = 0;
  for (const std::string& actor : actors) {
    const std::string_view role = std::string_view{actor}.substr(0, actor.find('/'));
    const auto at = std::find(kRoles.begin(), kRoles.end(), role);
    step = std::max(step, static_cast<int>(at - kRoles.begin()));
  }
  return step;
}

/// Returns the host of tcp://HOST:PORT.
std::string_view host_of(std::string_view endpoint) {
  constexpr std::string_view kTcp = "tcp://";
  const std::string_view rest = endpoint.substr(std::min(kTcp.size(), endpoint.size()));
  return rest.substr(0, rest.rfind(':'));
}

/// Checks a remote node. It gets all of its files from the head. Errors: kInvalid.
Result<Unit> check_elsewhere(const Cluster::Node& node, const Cluster& cluster, const RunConfig& config) {
  if (node.start == StartBy::kLocal) return Unit{};
  const std::string where = "node '" + printable(node.name, 40) + "'";
  if (has_role(node, "recorder"))
    return invalid(where, "has the recorder, which writes the launcher's run directory",
                   "move it to the head or a local node");
  if ((has_role(node, "executor") || has_role(node, "sampler")) && !config.executor.log.empty())
    return invalid(where, "has samplers or executors, which need executor.log on the launcher's host",
                   "move them to the head");
  if (has_role(node, "learner") && !config.run.policy.empty() && config.run.policy != kShippedPolicy)
    return invalid(where, "has the learner, which needs run.policy on the launcher's host",
                   "move it to the head or a local node");
  if (node.start == StartBy::kKubernetes || !node.dial.empty()) return Unit{};
  const std::string_view host = host_of(cluster.head.endpoint);
  const bool anywhere = host == "*" || host == "0.0.0.0";
  if (node.start == StartBy::kRay && anywhere) return Unit{};  // Ray has an address for this machine.
  if (!cluster.head.endpoint.starts_with("tcp://") || anywhere)
    return invalid(where, "cannot reach the head at " + cluster.head.endpoint,
                   anywhere ? "set dial = \"tcp://NAME:PORT\" for this node"
                            : "set head.endpoint to a tcp://ADDRESS:PORT that it can connect to");
  return Unit{};
}

/// Number of actors of each role in a run.
std::map<std::string_view, std::uint32_t> actors_of_roles(const RunConfig& config) {
  const std::uint32_t learner = learns(config) ? 1 : 0;
  return {{"sampler", config.pipeline.controllers},
          {"executor", config.reward.source == RewardSource::kLocal ? 0 : config.executor.count},
          {"learner", learner},
          {"tracker", learner},
          {"recorder", 1},
          {"dispatcher", 1}};
}

/// Names of the actors by where they run.
struct Homes {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> nodes;  ///< [nodes of the cluster]
};

/// Gives every actor a home: roles that no node has are the head's. Errors: those of shares().
Result<Homes> homes_of(const Cluster& cluster, std::map<std::string_view, std::uint32_t> total) {
  Homes homes{{}, std::vector<std::vector<std::string>>(cluster.nodes.size())};
  for (const std::string_view role : kRoles) {
    const bool many = role == "sampler" || role == "executor";
    std::vector<std::uint32_t> share(cluster.nodes.size());
    if (many) {
      EMPLACE_TRY_ASSIGN(share, shares(cluster, role, total[role]));
    }
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
      if (!many && has_role(cluster.nodes[i], role)) share[i] = total[role];
      for (std::uint32_t k = 0; k < share[i]; ++k) homes.nodes[i].push_back(actor_of(role, next++));
    }
    if (role == "executor" && has_elastic(cluster)) continue;
    while (next < total[role]) homes.head.push_back(actor_of(role, next++));
  }
  return homes;
}

NodePlan plan_of_head(const Cluster& cluster, std::vector<std::string> actors) {
  NodePlan plan;
  static_cast<Cluster::Node&>(plan) = cluster.head;
  plan.node = plan.name;
  plan.actors = std::move(actors);
  plan.keys = {cluster.head.key, {}, cluster.head.allowed};
  plan.insecure = cluster.head.insecure;
  plan.end_step = static_cast<int>(kRoles.size());
  return plan;
}

/// `number`: that of the process among those of its node.
NodePlan plan_of_process(const Cluster& cluster, const Cluster::Node& node, std::size_t number,
                         std::vector<std::string> actors, const RunConfig& config) {
  NodePlan plan;
  static_cast<Cluster::Node&>(plan) = node;
  plan.node = node.name;
  if (node.processes != 1) plan.name = fmt::format("{}/{}", node.name, number);
  if (node.program.empty() && node.start != StartBy::kRay) plan.program = "emplace";
  plan.actors = std::move(actors);
  plan.executors_each = std::max(node.count, 1u);
  plan.keys = {node.key, node.key.empty() ? "" : public_half(cluster.head.key), {}};
  plan.insecure = cluster.head.insecure;
  plan.end_step = is_elastic(node) ? end_step({actor_of("executor", 0)}) : end_step(plan.actors);
  if (config.executor.kind == "torch" && has_role(node, "executor")) plan.model = config.executor.model;
  return plan;
}

}  // namespace

Result<std::vector<NodePlan>> plan_nodes(const Cluster& cluster, const RunConfig& config) {
  for (const Cluster::Node& node : cluster.nodes) EMPLACE_TRY(check_elsewhere(node, cluster, config));
  auto total = actors_of_roles(config);
  EMPLACE_TRY_ASSIGN(auto homes, homes_of(cluster, total));
  std::vector<NodePlan> plan{plan_of_head(cluster, std::move(homes.head))};
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    const Cluster::Node& node = cluster.nodes[i];
    const std::vector<std::string>& of_node = homes.nodes[i];
    const std::size_t actors = of_node.size();
    const std::size_t processes =
        is_elastic(node) ? std::min(total["executor"], 1u)
                         : std::min<std::size_t>(node.processes == 0 ? actors : node.processes, actors);
    for (std::size_t p = 0; p < processes; ++p) {
      const auto at = [&](std::size_t k) { return of_node.begin() + static_cast<std::ptrdiff_t>(k); };
      plan.push_back(plan_of_process(cluster, node, p,
                                     {at(actors * p / processes), at(actors * (p + 1) / processes)}, config));
    }
  }
  return plan;
}

std::map<std::string, Role, std::less<>> roles_of_keys(std::span<const NodePlan> plans) {
  std::map<std::string, Role, std::less<>> roles;
  for (const NodePlan& plan : plans) {
    if (plan.name == Cluster{}.head.name) continue;
    const bool executors = std::all_of(plan.actors.begin(), plan.actors.end(), is_executor);
    roles[plan.name] = executors ? Role::kExecutor : Role::kActor;
  }
  return roles;
}

}  // namespace emplace::launcher

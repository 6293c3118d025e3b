#include "launcher/cluster/hosts/topology.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/cluster/endpoint.h"
#include "launcher/cluster/hosts/remote_host.h"
#include "runtime/process/run_command.h"

namespace emplace::launcher {
namespace {

constexpr std::size_t kMaxSocketPath = 107;  // Limit of sockaddr_un on Linux.

/// Returns whether a folder exists and other users can access it: a socket without keys must not be there.
bool is_shared(const std::filesystem::path& directory) {
  struct stat facts {};
  return ::stat(directory.c_str(), &facts) == 0 &&
         (facts.st_uid != ::geteuid() || (facts.st_mode & 077) != 0);
}

Program local_program(const Topology& topology, const NodePlan& node, const Start& start,
                      const std::string& endpoint, double budget_left_s, int restarts) {
  std::vector<std::string> arguments{"node",
                                     "--config",
                                     topology.config.string(),
                                     "--dir",
                                     start.directory.string(),
                                     "--start",
                                     start.name,
                                     "--budget",
                                     fmt::format("{}s", budget_left_s),
                                     "--name",
                                     node.name};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {name, value});
  };
  add("--run-id", start.run_id);
  add("--cluster", topology.cluster.string());
  const bool head = node.name == Cluster{}.head.name;
  // A local node without a key connects to the socket in the run directory.
  const bool by_socket = !head && topology.encrypted && node.keys.own.empty() && !topology.beside.empty();
  add("--endpoint", !node.dial.empty() ? node.dial : by_socket ? topology.beside : endpoint);
  if (head) add("--beside", topology.beside);
  if (restarts > 0) add("--restarts", std::to_string(restarts));
  return {program_path(), std::move(arguments), {}};
}

}  // namespace

std::string program_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

Result<Topology> make_topology(const Cluster& cluster, const RunConfig& config,
                               const std::filesystem::path& directory) {
  EMPLACE_TRY_ASSIGN(auto nodes, plan_nodes(cluster, config));
  Topology topology{directory / "config.toml", {}, {}, {}, false, cluster.supervision, std::move(nodes), {}};
  topology.encrypted = !cluster.head.key.empty();
  topology.supervision.seed = config.run.seed;
  const std::filesystem::path folder = std::filesystem::absolute(directory).lexically_normal();
  const std::filesystem::path socket = folder / (is_shared(folder) ? kPrivateSocket : kHeadSocket);
  const bool fits = socket.string().size() <= kMaxSocketPath;
  const bool tcp = cluster.head.endpoint != "ipc";
  // Other nodes need an endpoint; without them it only serves `ps` and is optional.
  if (tcp) topology.endpoint = cluster.head.endpoint;
  if (!tcp && (fits || topology.nodes.size() > 1)) topology.endpoint = "ipc://" + socket.string();
  if (tcp && fits) topology.beside = "ipc://" + socket.string();
  for (const NodePlan& node : topology.nodes) {
    if (node.start == StartBy::kKubernetes || node.start == StartBy::kJoin) continue;
    const bool same_job = node.start == StartBy::kSlurm && !topology.members.empty() &&
                          topology.members.back().front().node == node.node;
    if (same_job) {
      topology.members.back().push_back(node);
    } else {
      topology.members.push_back({node});
    }
  }
  return topology;
}

Child child_of(const std::vector<NodePlan>& member) {
  const NodePlan& first = member.front();
  Child child{member.size() > 1 ? first.node : first.name, first.end_step, {}};
  child.elsewhere = first.start != StartBy::kLocal;
  child.host = first.start == StartBy::kSsh     ? first.host
               : first.start == StartBy::kLocal ? ""
                                                : std::string{word_of(first.start)};
  if (!child.elsewhere) child.environment = first.environment;
  if (first.start == StartBy::kRay) child.environment = ray_environment(first);
  return child;
}

Result<Program> program_of(const Topology& topology, const std::vector<NodePlan>& member, const Start& start,
                           const std::string& endpoint, double budget_left_s, int restarts) {
  const NodePlan& first = member.front();
  if (first.start == StartBy::kSsh) {
    const auto ssh = process::find_program("ssh");
    if (!ssh) return invalid("ssh", "is not installed", "install it, or use another start for the node");
    Program program = ssh_program(first, endpoint);
    program.path = *ssh;
    return program;
  }
  if (first.start == StartBy::kSlurm) {
    std::string name = std::filesystem::absolute(start.directory).lexically_normal().filename().string();
    return slurm_program(member, endpoint, name,
                         std::filesystem::absolute(start.directory) / "slurm" / (first.node + ".sbatch"));
  }
  if (first.start == StartBy::kRay) {
    const std::filesystem::path log =
        std::filesystem::absolute(start.directory) / "log" / (first.node + "-ray");
    return ray_program(first,
                       {.head = endpoint, .beside = topology.beside, .log = log, .restarts = restarts});
  }
  return local_program(topology, first, start, endpoint, budget_left_s, restarts);
}

}  // namespace emplace::launcher

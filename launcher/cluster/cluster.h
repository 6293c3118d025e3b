#pragma once
/// Topology as data: the processes of a run, how each is started, and its actors.

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/keys.h"
#include "base/result.h"
#include "base/settings.h"
#include "launcher/settings/config.h"
#include "runtime/core/supervisor.h"
#include "runtime/node.h"

namespace emplace::launcher {

/// How a node is started: as a child process, by ssh, by a batch job, by Kubernetes, by Ray, or by hand with
/// `emplace join`.
enum class StartBy : std::uint8_t { kLocal, kSsh, kSlurm, kKubernetes, kRay, kJoin };
constexpr auto enum_words(StartBy) {
  return EnumWords{
      "start", std::array{EnumWord{StartBy::kLocal, "local"}, EnumWord{StartBy::kSsh, "ssh"},
                          EnumWord{StartBy::kSlurm, "slurm"}, EnumWord{StartBy::kKubernetes, "kubernetes"},
                          EnumWord{StartBy::kRay, "ray"}, EnumWord{StartBy::kJoin, "join"}}};
}

/// The head as a Job, or the whole run as a JobSet.
enum class KubernetesKind : std::uint8_t { kJob, kJobSet };
constexpr auto enum_words(KubernetesKind) {
  return EnumWords{
      "kind", std::array{EnumWord{KubernetesKind::kJob, "job"}, EnumWord{KubernetesKind::kJobSet, "jobset"}}};
}

/// A cluster file. Without one, a run has a single node, the head, with every actor.
struct Cluster {
  /// How executors that follow the demand of the run are kept on a Ray cluster (python/emplace/ray). `cpus`
  /// and `memory` of their node are those of an actor's bundle.
  struct Ray {
    std::string address = "auto";          ///< "auto", "local", HOST:PORT or ray://HOST:PORT.
    std::uint32_t max = 0;                 ///< Most executors; 0: the demand decides.
    std::uint32_t per_actor = 1;           ///< Executors of one actor.
    double gpus = 0;                       ///< GPUs of an actor's bundle.
    std::vector<std::string> resources;    ///< Custom resources of an actor's bundle: "NAME=AMOUNT".
    std::string runtime_env;               ///< Runtime environment of the actors, JSON; empty: none.
    Nanos idle = std::chrono::seconds{5};  ///< Time before an actor that is not needed is drained.
  };
  struct Node {
    std::string name;  ///< Name of its process; "name/0", "name/1", … if there are several.
    StartBy start = StartBy::kLocal;
    std::string host;                  ///< ssh: host, "user@name" or a name in the ssh config.
    std::string program;               ///< Remote: path of emplace; empty: "emplace".
    std::string cache;                 ///< Remote: cache folder for graphs; empty: the default.
    std::vector<std::string> options;  ///< Options of ssh, or #SBATCH lines.
    double cpus = 0;                   ///< kubernetes: CPUs per process; 0: one per actor. ray: per actor.
    std::vector<std::string> roles;
    std::uint32_t count = 0;      ///< Number of samplers or executors; 0: an even share of the config's.
    std::uint32_t processes = 1;  ///< Processes that share these actors evenly; 0: one per actor.
    /// slurm, kubernetes, join: the node is elastic. It has as many processes as the run wants, up to this
    /// number, with `count` executors each (0: one); 0: it has `processes`.
    std::uint32_t max_processes = 0;
    std::string dial;  ///< Address of the head as seen from this node; empty: the head's own address.
    std::vector<std::string> environment;  ///< "NAME=value", added to our environment.
    std::int64_t memory = 0;               ///< Memory limit per process (RLIMIT_DATA) [B]; 0: none.
    std::uint32_t open_files = 0;          ///< Limit of open files per process; 0: unchanged.
    std::string key;                       ///< Key file, if links are encrypted.
    Ray ray;                               ///< Settings of start = "ray".
  };
  struct Run {
    std::string config, dir;  ///< Config and run directory; the command line overrides them.
  } run;
  /// Settings of the Kubernetes manifests.
  struct Kubernetes {
    std::string image, name_space = "default", storage = "10GiB";
    KubernetesKind kind = KubernetesKind::kJob;
    std::string key_secret;     ///< Secret with head.key, allowed.toml and node.key; empty: needs `insecure`.
    std::string status_secret;  ///< Secret with status.token; empty: the head has no status port.
    std::vector<std::string> status_from;  ///< Other namespaces whose pods may reach the status port.
  } kubernetes;
  std::vector<Node> nodes;  ///< Nodes other than the head, which takes every role that no node has.
  struct Head : Node {
    Head() { name = "head"; }
    std::string endpoint = "ipc";  ///< "ipc" (a socket in the run directory) or tcp://HOST:PORT.
    std::string allowed;           ///< Its allow-list, if links are encrypted.
    bool insecure = false;         ///< Allow tcp without encryption.
  } head;
  runtime::SupervisorOptions supervision;
  std::string paths_from;  ///< Folder that relative paths of the file are resolved against.
};

inline constexpr std::uint32_t kMaxExecutors = 4'000;  ///< Maximum number of executors of one process.

/// Where executors are to run; overrides the cluster file.
enum class Engine : std::uint8_t {
  kAsWritten,
  /// The first node that has only executors gets start = "ray", others of that kind are left out; if there is
  /// none, a node "ray" is added.
  kRay
};

/// Returns whether the executors of a node follow the demand of the run: they join it besides those of the
/// config, and the plan has no actors for them.
inline bool is_elastic(const Cluster::Node& node) {
  return node.start == StartBy::kRay || node.max_processes > 0;
}

/// Reads a cluster file (launcher/cluster/cluster_file.cc). `settings` ("head.endpoint=…",
/// "node.NAME.count=4") override it. Relative paths are resolved against its folder, or its `paths_from`.
/// Errors: kIo; kInvalid with file and line.
Result<Cluster> load_cluster(const std::filesystem::path& path, std::span<const std::string> settings = {},
                             Engine engine = Engine::kAsWritten);
Result<Cluster> parse_cluster(std::string_view toml, std::string_view where,
                              std::span<const std::string> settings = {}, Engine engine = Engine::kAsWritten);
/// Splits a resource "NAME=AMOUNT" of Cluster::Ray. Returns an empty name for another text.
std::pair<std::string, double> resource_of(const std::string& text);
/// Returns whether "key=value" is a setting of the cluster, not of the config.
bool is_cluster_setting(std::string_view setting);
/// Returns every key that differs from its default, as TOML that parse_cluster() reads back to the same
/// cluster.
std::string to_toml(const Cluster& cluster);

/// One process of a run, with the settings of its node.
struct NodePlan : Cluster::Node {
  std::string node;                  ///< Name of its node in the cluster file; `name` is unique in the run.
  std::vector<std::string> actors;   ///< Names of its actors. None if it is elastic: its processes join.
  std::uint32_t executors_each = 1;  ///< Executors of each process of an elastic node, which has one plan.
  std::string model;                 ///< MODULE:NAME for the command line of its `emplace join`; empty: none.
  runtime::KeyFiles keys;
  bool insecure = false;
  int end_step = 0;  ///< Shutdown order: lower steps end first, clients before servers, the head last.
};

/// Assigns every actor of the run to exactly one process; the head comes first. With an elastic node,
/// executors that no other node has are left to it. The result depends only on the files, so that every
/// process computes its own actors. Errors (kInvalid): a single role assigned twice; more or fewer samplers
/// or executors than the config has; no executor; a remote node that cannot reach the head, or has a role
/// that needs the run directory.
Result<std::vector<NodePlan>> plan_nodes(const Cluster& cluster, const RunConfig& config);

/// Returns, for each node but the head, the role that its key needs: executor if all of its actors are
/// executors, else actor.
std::map<std::string, Role, std::less<>> roles_of_keys(std::span<const NodePlan> plans);

}  // namespace emplace::launcher

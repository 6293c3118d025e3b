#pragma once
/// Topology as data: which processes a run has, how each is started, and who lives in it.

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
#include "launcher/settings/config.h"
#include "runtime/core/supervisor.h"
#include "runtime/node.h"

namespace emplace::launcher {

/// A cluster file. Without one a run has one node, the head, and everybody lives there.
struct Cluster {
  struct Node {
    std::string name;                  ///< Of its process; "name/0", "name/1", … where there are several.
    std::string start = "local";       ///< How it is started: one of kStarts.
    std::string host;                  ///< ssh: where, as ssh takes it: "user@name", or a name of its config.
    std::string program;               ///< Elsewhere: where emplace lies; empty: "emplace".
    std::string cache;                 ///< Elsewhere: where it keeps graphs; empty: its default.
    std::vector<std::string> options;  ///< For ssh, or #SBATCH lines.
    double cpus = 0;                   ///< kubernetes: of each process; 0: one for each actor.
    std::vector<std::string> roles;
    std::uint32_t count = 0;      ///< Samplers or executors that live here; 0: an even share of the config's.
    std::uint32_t processes = 1;  ///< That share them evenly; 0: one for each.
    std::string dial;  ///< The head's address as seen from here; empty: as the head itself gives it.
    std::vector<std::string> environment;  ///< "NAME=value", on top of ours.
    std::int64_t memory = 0;               ///< [B] Of each process (RLIMIT_DATA); 0: no limit.
    std::uint32_t open_files = 0;          ///< Of each process; 0: as we have it.
    std::string key;                       ///< Its key file, where links are encrypted.
  };
  struct Run {
    std::string config, dir;  ///< Used where the command line names none.
  } run;
  /// How kubernetes nodes are described.
  struct Kubernetes {
    std::string image, name_space = "default", storage = "10GiB";
    std::string key_secret;  ///< A Secret with head.key, allowed.toml, node.key; empty: needs insecure.
  } kubernetes;
  std::string endpoint = "ipc";  ///< Of the head: "ipc" (a socket in the run directory) or tcp://HOST:PORT.
  std::vector<Node> nodes;       ///< Beside the head, which takes every role that none of them has.
  Node head{.name = "head"};
  std::string allowed;    ///< The head's allow-list, where links are encrypted.
  bool insecure = false;  ///< tcp in the open.
  runtime::SupervisorOptions supervision;
  std::string paths_from;  ///< Folder at which relative paths of the file begin.
};

/// How a node can be started: a child process here; by ssh; by a batch job; by a cluster's own controller; by
/// hand.
inline constexpr std::array<std::string_view, 5> kStarts{"local", "ssh", "slurm", "kubernetes", "join"};

/// Reads a cluster file (launcher/cluster/cluster_file.cc), then `settings` ("head.endpoint=…",
/// "node.NAME.count=4") over it; paths in it begin beside it, or at its `paths_from`. Errors: kIo; kInvalid
/// with file and line.
Result<Cluster> load_cluster(const std::filesystem::path& path, std::span<const std::string> settings = {});
Result<Cluster> parse_cluster(std::string_view toml, std::string_view where,
                              std::span<const std::string> settings = {});
/// True for a "key=value" that is the cluster's, not the config's.
bool is_cluster_setting(std::string_view setting);
/// Every key that is not at its default, as TOML that parse_cluster reads back to the same cluster.
std::string to_toml(const Cluster& cluster);

/// One process of a run.
struct NodePlan {
  std::string name;             ///< Unique in the run.
  std::string node;             ///< Of the cluster that it belongs to; the head's own.
  std::string start = "local";  ///< As its node has it, and so are the next four.
  std::string host, program, cache;
  std::vector<std::string> options;
  std::vector<std::string> actors;  ///< By the names that they address each other with.
  std::vector<std::string> environment;
  std::string dial;
  std::int64_t memory = 0;
  std::uint32_t open_files = 0;
  runtime::KeyFiles keys;
  bool insecure = false;
  int end_step = 0;  ///< Lower steps are ended first: who asks before who answers, the head last.
};

/// The wiring: every actor of the run in exactly one process, the head first. The same for the same files,
/// so every process finds out by itself who lives in it. Errors: kInvalid: a role twice, or more samplers or
/// executors wanted than the config has, or fewer;
/// nobody who executes; a node elsewhere that could not reach the head, or has a role that must be beside the
/// run directory.
Result<std::vector<NodePlan>> plan_nodes(const Cluster& cluster, const RunConfig& config);

/// The role that a key needs to come as each of these nodes, the head left out: where others than executors
/// live, that of an actor.
std::map<std::string, Role, std::less<>> roles_of_keys(std::span<const NodePlan> plans);

}  // namespace emplace::launcher

#pragma once
/// The plan of a run: its processes, its task and its directory.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/hosts/topology.h"
#include "launcher/settings/config.h"
#include "launcher/settings/start.h"

namespace emplace::launcher {

class RunObserver;

/// The requested run.
struct RunOrder {
  RunConfig config;  ///< Resolved.
  std::filesystem::path directory;
  bool resume = false;  ///< Continue the run in the directory.
  std::filesystem::path
      inputs_of;                   ///< Run whose recorded graphs and machine are used; empty: those of files.
  bool quiet = false;              ///< No progress on standard error.
  std::optional<Cluster> cluster;  ///< Assignment of actors to processes; none: all in one.
  bool push = false;               ///< Copy the program to hosts reached by ssh.
  bool announce_machine = true;    ///< State what this machine is, if the run is for it.
  RunObserver* observer = nullptr;  ///< Follows the run; may be null.
};

/// The order and everything derived from it. Making a plan changes nothing on disk.
struct RunPlan {
  RunOrder order;
  Topology topology;
  actors::TaskPtr task;
  /// Files that the run keeps, as the processes of the run read them: path in its directory, content.
  std::vector<std::pair<std::filesystem::path, std::string>> inputs;
  std::vector<std::string> notes;           ///< Lines for people about the machine.
  std::map<std::string, int> executors_at;  ///< Number of executors by host; "": this machine.
};

/// Reads the graphs and devices. Errors: those of make_topology(), load_task() and kept_task().
Result<RunPlan> make_plan(RunOrder order);

/// Checks that this machine can run the executors, and that the directory is usable. Changes nothing. Errors:
/// kInvalid, kUnsupported, kIo.
Result<Unit> check_plan(const RunPlan& plan);

/// Errors: kInvalid if the directory has a run that is not to be resumed.
Result<Unit> check_free(const RunOrder& order);

/// Returns each start of a config with its directory, and whether it exists already.
std::vector<Start> starts_of(const RunOrder& order);

}  // namespace emplace::launcher

#pragma once
/// A run that is about to begin: who takes part in it, on what, and where it is kept.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/topology.h"
#include "launcher/settings/config.h"
#include "launcher/settings/start.h"

namespace emplace::launcher {

/// What is asked for.
struct RunOrder {
  RunConfig config;  ///< Resolved.
  std::filesystem::path directory;
  bool resume = false;             ///< Go on with the run that is kept there.
  bool quiet = false;              ///< No progress on standard error.
  std::optional<Cluster> cluster;  ///< In which processes the actors live; none: in one.
  bool push = false;               ///< The program is brought to the hosts reached by ssh.
};

/// The order, and what follows from it alone. Nothing on disk is changed by it.
struct RunPlan {
  RunOrder order;
  Topology topology;
  actors::TaskPtr task;
  std::map<std::string, int> executors_at;  ///< Their number by host; "": this machine.
};

/// Reads the graphs and devices. Errors: as lay_out and load_task.
Result<RunPlan> make_plan(RunOrder order);

/// That this machine can run the executors, and that the folder may take the run. Changes nothing. Errors:
/// kInvalid, kUnsupported, kIo.
Result<Unit> check_plan(const RunPlan& plan);

/// Errors: kInvalid if the folder holds a run that is not resumed.
Result<Unit> check_free(const RunOrder& order);

/// Where each start of a config is kept, and which of them there are already.
std::vector<Start> starts_of(const RunOrder& order);

}  // namespace emplace::launcher

#pragma once
/// `emplace node`: a process that holds actors of one start of a run. Started by the launcher, never by
/// people.

#include <filesystem>
#include <string>

#include "base/result.h"
#include "launcher/run/wiring.h"

namespace emplace::launcher {

struct NodeRequest {
  std::filesystem::path config;   ///< As resolved, in the run directory.
  std::filesystem::path cluster;  ///< Empty: everybody lives in the head.
  std::string name = "head";      ///< Of this process in the cluster's plan.
  std::string endpoint;           ///< The head binds it, the others dial it; empty: nobody else is there.
  Start start;
};

/// Runs until SIGTERM arrives, the head says goodbye, or standard input ends (the launcher died). SIGINT is
/// the launcher's. Errors: kInvalid, kIo before anything started; kRunFailed with the first cause.
Result<Unit> run_node(const NodeRequest& request);

}  // namespace emplace::launcher

#pragma once
/// A run whose directory is locked: no other process writes to it while the LockedRun exists.

#include <vector>

#include "base/result.h"
#include "launcher/session/run_plan.h"
#include "record/store/launch_lock.h"

namespace emplace::launcher {

struct LockedRun {
  record::LaunchLock lock;
  bool fresh = false;  ///< The directory was empty before.
  std::vector<Start> starts;
};

/// Creates and locks the run directory, checks that every start can start or resume, and writes the files
/// that the processes of the run read. If a check fails, a fresh directory is removed again. Errors:
/// kInvalid, kIo, those of check_start().
Result<LockedRun> lock_run(const RunPlan& plan);

}  // namespace emplace::launcher

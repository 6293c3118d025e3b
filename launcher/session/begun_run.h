#pragma once
/// A run whose folder is taken: nobody else writes into it until this goes.

#include <vector>

#include "base/result.h"
#include "launcher/session/run_plan.h"
#include "record/store/launch_lock.h"

namespace emplace::launcher {

struct BegunRun {
  record::LaunchLock lock;
  bool fresh = false;  ///< The folder held nothing before.
  std::vector<Start> starts;
};

/// Makes the folder, takes its lock, checks that every start can begin or be gone on with, and writes the
/// files that the processes of the run read. A fresh folder whose starts cannot begin is removed again.
/// Errors: kInvalid, kIo, as check_start.
Result<BegunRun> begin_run(const RunPlan& plan);

}  // namespace emplace::launcher

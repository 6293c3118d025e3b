#pragma once
/// Preparation of a run, before its first process starts.

#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "launcher/session/progress.h"
#include "launcher/session/run_plan.h"
#include "launcher/terminal/stop_signal.h"
#include "record/store/launch_lock.h"

namespace emplace::launcher {

/// A run whose directory is locked: no other process writes to it while this exists.
struct LockedRun {
  record::LaunchLock lock;
  bool fresh = false;  ///< The directory was empty before.
  std::vector<Start> starts;
};

/// Creates and locks the run directory, checks that every start can start or resume, and writes the files
/// that the processes of the run read. If a check fails, a fresh directory is removed again. Errors:
/// kInvalid, kIo, those of check_start().
Result<LockedRun> lock_run(const RunPlan& plan);

/// Warns of executors that disturb each other's timing, and copies the program to ssh hosts with --push.
/// Errors: kIo.
Result<Unit> prepare_hosts(RunPlan& plan, Progress& progress);

/// Runs the heuristics of every graph; returns [graphs], fewer if `stop` receives a signal. A fresh directory
/// is removed again if a start needs a heuristic and none fits. Errors: kNoPlacement then; those of
/// run_heuristics().
Result<std::vector<Heuristics>> prepare_heuristics(const RunPlan& plan, const LockedRun& run,
                                                   const StopSignal& stop, Progress& progress,
                                                   const Clock& clock);

/// Prints the run directory, the expected size of its record, and whether `ps` can reach the run.
void announce(const RunPlan& plan, Progress& progress);

}  // namespace emplace::launcher

#pragma once
/// Preparation of a run, before its first process starts.

#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "launcher/session/locked_run.h"
#include "launcher/session/progress.h"
#include "launcher/session/run_plan.h"

namespace emplace::launcher {

/// Warns of executors that disturb each other's timing, and copies the program to ssh hosts with --push.
/// Errors: kIo.
Result<Unit> prepare_hosts(RunPlan& plan, Progress& progress);

struct PreparedBaselines {
  std::vector<Baselines> baselines;  ///< [graphs]
  int signal = 0;                    ///< SIGINT or SIGTERM if one ended the preparation; 0 otherwise.
};
/// Runs the heuristics of every graph. A fresh directory is removed again if a signal ends this, or if a
/// start needs a placement and none fits. Errors: kNoPlacement then; as find_baselines.
Result<PreparedBaselines> prepare_baselines(const RunPlan& plan, const LockedRun& run, Progress& progress,
                                            const Clock& clock);

/// Prints the run directory, the expected size of its record, and whether `ps` can reach the run.
void announce(const RunPlan& plan, Progress& progress);

}  // namespace emplace::launcher

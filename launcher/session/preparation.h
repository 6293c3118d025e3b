#pragma once
/// What is done for a run between its beginning and its first process.

#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "launcher/session/begun_run.h"
#include "launcher/session/progress.h"
#include "launcher/session/run_plan.h"

namespace emplace::launcher {

/// Warns of executors that disturb each other, and brings the program to the hosts that want it. Errors: kIo.
Result<Unit> prepare_hosts(RunPlan& plan, Progress& progress);

struct PreparedBaselines {
  std::vector<Baselines> baselines;  ///< By graph.
  int signal = 0;                    ///< SIGINT or SIGTERM if one ended the preparation; 0 otherwise.
};
/// Runs the heuristics of every graph. A fresh folder is removed again if a signal ends this, or if a start
/// needs a placement and none fits. Errors: kNoPlacement then; as find_baselines.
Result<PreparedBaselines> prepare_baselines(const RunPlan& plan, const BegunRun& begun, Progress& progress,
                                            const Clock& clock);

/// Tells where the run is kept, how large its record may become, and whether `ps` can reach it.
void announce(const RunPlan& plan, Progress& progress);

}  // namespace emplace::launcher

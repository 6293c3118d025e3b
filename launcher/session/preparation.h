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

/// The baselines of every graph, in order. A fresh folder is removed again if a start needs one and there is
/// none. Errors: kNoPlacement then; as find_baselines.
Result<std::vector<Baselines>> prepare_baselines(const RunPlan& plan, const BegunRun& begun,
                                                 Progress& progress, const Clock& clock);

/// Tells where the run is kept, how large its record may become, and whether `ps` can reach it.
void announce(const RunPlan& plan, Progress& progress);

}  // namespace emplace::launcher

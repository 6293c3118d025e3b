#pragma once
/// The trace of a whole run.

#include <filesystem>

#include "base/result.h"
#include "launcher/cluster/node/actor_trace.h"
#include "launcher/session/run_plan.h"

namespace emplace::launcher {

/// Merges the traces of every process of every start into one file, then removes them. Errors: those of
/// merge_traces(); the traces then stay.
Result<TraceSummary> collect_trace(const RunOrder& order, const std::filesystem::path& path);

}  // namespace emplace::launcher

#pragma once
/// The trace of a whole run.

#include <filesystem>

#include "base/result.h"
#include "launcher/cluster/actor_trace.h"
#include "launcher/session/run_plan.h"

namespace emplace::launcher {

/// Makes one file of what the processes of every start have noted; then theirs are gone. Errors: as
/// merge_traces, and theirs stay.
Result<TraceSummary> collect_trace(const RunOrder& order, const std::filesystem::path& path);

}  // namespace emplace::launcher

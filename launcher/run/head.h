#pragma once
/// `emplace node`: the process that holds the actors of one start of a run. Started by the launcher, never by
/// people.

#include <filesystem>

#include "base/result.h"
#include "launcher/run/wiring.h"

namespace emplace::launcher {

/// Runs until the budget is spent, SIGTERM arrives, or standard input ends (the launcher died). SIGINT is the
/// launcher's. Errors: kInvalid, kIo before anything started; kRunFailed with the first cause.
Result<Unit> run_head(const std::filesystem::path& config_path, const Start& start);

}  // namespace emplace::launcher

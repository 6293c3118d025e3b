#pragma once
/// Output of `emplace replay RUN --learn POLICY`.

#include "launcher/command.h"
#include "launcher/console.h"
#include "launcher/replay/learn_from_log.h"

namespace emplace::launcher {

/// Learns from the log, shows progress and prints the report. Errors: those of learn_from_log().
Result<ExitStatus> learn_and_print(Console& console, RecordedRun& run, const LearnFromLogRequest& request);

}  // namespace emplace::launcher

#pragma once
/// Output of `emplace replay RUN --learn POLICY`.

#include "launcher/replay/learn_from_log.h"
#include "launcher/terminal/command.h"
#include "launcher/terminal/console.h"

namespace emplace::launcher {

/// Learns from the log, shows progress and prints the report. Errors: those of learn_from_log().
Result<ExitStatus> learn_and_print(Console& console, RecordedRun& run, const LearnFromLogRequest& request);

}  // namespace emplace::launcher

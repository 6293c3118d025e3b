#pragma once
/// `emplace replay RUN --learn POLICY`: what the command shows of it.

#include "launcher/command.h"
#include "launcher/console.h"
#include "launcher/replay/learn_from_log.h"

namespace emplace::launcher {

/// Learns, showing how far it is, and prints the report. Errors: as learn_from_log().
Result<ExitStatus> learn_and_print(Console& console, LoggedRun& run, const LearnFromLogRequest& request);

}  // namespace emplace::launcher

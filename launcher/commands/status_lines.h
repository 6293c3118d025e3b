#pragma once
/// The status of a run as lines: `ps`, and `top` without a terminal.

#include <string>
#include <vector>

#include "base/clock.h"
#include "launcher/cluster/operator/operator.h"
#include "launcher/terminal/command.h"
#include "launcher/terminal/terminal.h"
#include "messages/status.h"

namespace emplace::launcher {

/// Returns the lines of the run, then a table with a row for each node.
std::vector<std::string> status_lines(const messages::StatusDelivered& status, const Terminal& terminal);

/// Prints the status, as lines or (--json) as JSON, again after each `every` until a signal or the end of the
/// run; 0: once. Errors: those of watch_status().
Result<ExitStatus> print_status(const HeadAccess& head, Nanos every, Console& console);

}  // namespace emplace::launcher

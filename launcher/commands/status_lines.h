#pragma once
/// The status of a run as lines, for `ps`.

#include <string>
#include <vector>

#include "launcher/terminal/terminal.h"
#include "messages/status.h"

namespace emplace::launcher {

/// Returns the lines of the run, why nothing runs, and a table with a row for each node; control characters
/// of names are replaced. `age_s`: time since the head delivered this status [s]. Pure; any thread.
std::vector<std::string> status_lines(const messages::StatusDelivered& status, const Terminal& terminal,
                                      double age_s = 0);

}  // namespace emplace::launcher

#pragma once
/// The choice of Placeto's simulator on the command line.

#include <string>

#include "base/result.h"
#include "executor/split/judge.h"
#include "launcher/terminal/console.h"

namespace emplace::launcher {

/// Errors (kInvalid): an --executor of a command that searches, other than sim and placeto.
Result<Unit> check_step_model(const std::string& executor);

/// Lets `judge` take step times by Placeto's simulator if `placeto`, and prints a line that it has no memory.
/// Errors (kInvalid): another objective.
Result<Unit> use_placeto(bool placeto, Judge& judge, Console& console);

}  // namespace emplace::launcher

#pragma once
/// The choice of Placeto's simulator on the command line.

#include "base/result.h"
#include "executor/split/judge.h"
#include "launcher/console.h"

namespace emplace::launcher {

/// Lets `judge` take step times by Placeto's simulator if `placeto`, and prints a line that it has no memory.
/// Errors (kInvalid): another objective.
Result<Unit> use_placeto(bool placeto, Judge& judge, Console& console);

}  // namespace emplace::launcher

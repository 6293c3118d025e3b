#pragma once
/// The model of a step that a search asks, and its inputs.

#include <string>

#include "base/result.h"
#include "executor/split/judge.h"
#include "launcher/inputs/inputs.h"
#include "launcher/terminal/console.h"

namespace emplace::launcher {

/// Errors (kInvalid): an --executor of a command that searches, other than sim and placeto.
Result<Unit> check_step_model(const std::string& executor);

/// Lets `judge` take step times by Placeto's simulator if `placeto`, and prints a line that it has no memory.
/// Errors (kInvalid): another objective.
Result<Unit> use_placeto(bool placeto, Judge& judge, Console& console);

/// Opens the inputs of a command that searches, prints what it assumes about them, and proves that something
/// may fit. `noise`: the option that asks for noisy steps; empty: none. Errors: those of open_inputs(),
/// use_placeto() and check_jitter(); kNoPlacement, with the graph's file.
Result<Inputs> open_problem(const InputOptions& options, bool placeto, const std::string& noise,
                            Console& console);

}  // namespace emplace::launcher

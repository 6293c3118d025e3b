#pragma once
/// The program that executes steps in PyTorch, a part of the Python package, and the model that it gets.

#include <string>
#include <string_view>

#include "base/result.h"
#include "launcher/worker/helper_process.h"

namespace emplace::launcher {

/// Environment variable with the Python interpreter whose PyTorch is used.
inline constexpr const char* kPythonVariable = "EMPLACE_PYTHON";

/// Returns how the program is started, the first of these: the package in the interpreter that EMPLACE_PYTHON
/// names; emplace-exec-torch beside the running program; emplace-exec-torch in PATH; the package in the
/// python3 of PATH. Starts nothing.
HelperCommand torch_command();

/// Starts the program to ask for its version: "emplace-exec-torch 0.1.0, torch 2.1.0". Blocks, for less than
/// a second as a rule. Errors (kUnsupported): the program or PyTorch is missing, and how to get it.
Result<std::string> torch_version(const HelperCommand& command);

/// Checks that a text is MODULE:NAME, a function that makes the model whose step is executed. Only the
/// command line or the config of the machine that imports it may name it: a head never does. Errors
/// (kInvalid).
Result<Unit> check_model(std::string_view model);
/// Returns the path of PATH/FILE.py:NAME; empty for a module, which Python finds itself.
std::string_view model_file(std::string_view model);

}  // namespace emplace::launcher

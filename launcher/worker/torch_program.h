#pragma once
/// The program that executes steps in PyTorch, a part of the Python package.

#include <string>
#include <string_view>

#include "base/result.h"
#include "launcher/worker/helper_process.h"

namespace emplace::launcher {

/// Environment variable with the Python interpreter whose PyTorch is used.
inline constexpr const char* kPythonVariable = "EMPLACE_PYTHON";

/// Returns the Python interpreter for parts of the package emplace: the one that EMPLACE_PYTHON names, or the
/// python3 of PATH. Empty: none.
std::string python_path();

/// Returns how the program is started, the first of these: the package in the interpreter that EMPLACE_PYTHON
/// names; emplace-exec-torch beside the running program; emplace-exec-torch in PATH; the package in the
/// python3 of PATH. Starts nothing.
HelperCommand torch_command();

/// Starts the program to ask for its version: "emplace-exec-torch 0.1.0, torch 2.1.0". Blocks, for less than
/// a second as a rule. Errors (kUnsupported): the program or PyTorch is missing, and how to get it.
Result<std::string> torch_version(const HelperCommand& command);

}  // namespace emplace::launcher

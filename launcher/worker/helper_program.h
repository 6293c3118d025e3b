#pragma once
/// The executor programs: their paths, and how they are started. The one of "torch" executes steps in
/// PyTorch; it is a part of the Python package.

#include <filesystem>
#include <optional>
#include <span>
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

/// Why a Python cannot start a module of the package emplace, and the first part of the cure.
struct PackageFault {
  std::string what;  ///< "lacks the package emplace", or has a stranger's of that name, which is on PyPI.
  std::string before_install;  ///< Text before "pip install …"; empty: nothing.
};
/// Returns the fault in what a Python printed that was to start such a module; nullopt: another one.
std::optional<PackageFault> package_fault(std::string_view errors);

/// Returns the kinds that run in processes: "cpu", "cuda", "fake", "torch".
std::span<const std::string_view> process_executor_kinds();
/// Returns the path beside the running program: "DIRECTORY/emplace-exec-cpu".
std::filesystem::path helper_path(std::string_view kind);
/// Returns how the program of a kind is started, without options. "torch" is the first of these: the package
/// in the interpreter that EMPLACE_PYTHON names; emplace-exec-torch beside the running program;
/// emplace-exec-torch in PATH; the package in the python3 of PATH. Starts nothing and checks little: a
/// program that is missing fails when it is started.
HelperCommand helper_command(std::string_view kind);
/// Checks that the program of a kind can start, and returns what it is: "emplace-exec-cpu",
/// "emplace-exec-torch 0.1.0, torch 2.1.0". Starts that of "torch" to ask for its version, and blocks for
/// less than a second as a rule. Errors (kUnsupported): it or PyTorch is missing; the error states how to get
/// it.
Result<std::string> helper_program(std::string_view kind);

}  // namespace emplace::launcher

#pragma once
/// Where the programs lie that executors of real devices live in.

#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"

namespace emplace::launcher {

/// "cpu", "cuda", "fake".
std::span<const std::string_view> process_executor_kinds();
/// Beside the program that runs: "DIRECTORY/emplace-exec-cpu".
std::filesystem::path helper_path(std::string_view kind);
/// The same if it can be run. Errors (kUnsupported): it was not built, and what would build it.
Result<std::filesystem::path> helper_program(std::string_view kind);

}  // namespace emplace::launcher

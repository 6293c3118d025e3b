#pragma once
/// Paths of the executor programs.

#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"

namespace emplace::launcher {

/// Returns the kinds that run in processes: "cpu", "cuda", "fake".
std::span<const std::string_view> process_executor_kinds();
/// Returns the path beside the running program: "DIRECTORY/emplace-exec-cpu".
std::filesystem::path helper_path(std::string_view kind);
/// Returns helper_path() if it is executable. Errors (kUnsupported): it was not built; the error states how
/// to build it.
Result<std::filesystem::path> helper_program(std::string_view kind);

}  // namespace emplace::launcher

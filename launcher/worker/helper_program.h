#pragma once
/// The executor programs: their paths, and how they are started.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "launcher/worker/helper_process.h"

namespace emplace::launcher {

/// Returns the kinds that run in processes: "cpu", "cuda", "fake", "torch".
std::span<const std::string_view> process_executor_kinds();
/// Returns the path beside the running program: "DIRECTORY/emplace-exec-cpu".
std::filesystem::path helper_path(std::string_view kind);
/// Returns how the program of a kind is started, without options. Starts nothing and checks little: a program
/// that is missing fails when it is started.
HelperCommand helper_command(std::string_view kind);
/// Checks that the program of a kind can start, and returns what it is: "emplace-exec-cpu",
/// "emplace-exec-torch 0.1.0, torch 2.1.0". Errors (kUnsupported): it is missing; the error states how to get
/// it.
Result<std::string> helper_program(std::string_view kind);

}  // namespace emplace::launcher

#pragma once
/// The name of the function that makes the model, loss and optimizer whose step PyTorch executes.

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace emplace::launcher {

/// Checks that a text is MODULE:NAME, a function that makes the model whose step is executed. Only the
/// command line or the config of the machine that imports it may name it: a head never does. Errors
/// (kInvalid).
Result<Unit> check_model(std::string_view model);
/// Checks that --model and --threads are given only for executors of kind torch. `threads`: 0 if not given.
/// Errors (kInvalid).
Result<Unit> check_torch_only(std::string_view model, std::uint64_t threads, std::string_view kind);
/// Returns the path of PATH/FILE.py:NAME; empty for a module, which Python finds itself.
std::string_view model_file(std::string_view model);

}  // namespace emplace::launcher

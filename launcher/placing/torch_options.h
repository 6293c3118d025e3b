#pragma once
/// Options of commands that measure in PyTorch.

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/inputs/process_request.h"
#include "launcher/inputs/torch_model.h"
#include "launcher/terminal/options.h"

namespace emplace::launcher {

/// --model and --threads, as given on the command line.
struct TorchOptions {
  std::string model;
  std::uint64_t threads = 0;  ///< 0: not given.

  void declare(Options& options) {
    options
        .option(
            "--model", model,
            "Executor torch: MODULE:NAME of the function that makes the model, loss and optimizer whose step "
            "is executed; PATH/FILE.py:NAME is a file (default: none)")
        .option("--threads", threads, "Executor torch: threads of each device on CPU cores; 0: one");
  }
  /// Errors (kInvalid): they were given for an executor of another kind, or are out of range.
  Result<Unit> fill(ProcessRequest& request, std::string_view kind) const {
    if (kind != "torch") return check_unused(kind);
    request.model = model;
    if (threads > kMaxTorchThreads)
      return invalid("--threads", "is out of range", "use 1 to " + std::to_string(kMaxTorchThreads));
    request.threads = threads == 0 ? 1 : static_cast<std::uint32_t>(threads);
    return Unit{};
  }
  /// Errors (kInvalid): they were given, and executors of this kind have no use for them.
  Result<Unit> check_unused(std::string_view kind) const { return check_torch_only(model, threads, kind); }
};

}  // namespace emplace::launcher

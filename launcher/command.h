#pragma once
/// One command of `emplace`: what it takes and what it does. Each lives in a file of launcher/commands.

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/console.h"
#include "launcher/options.h"

namespace emplace::launcher {

/// What the process answers to the shell. INTERFACE: part of the contract.
enum class ExitStatus : int {
  kDone = 0,
  kBadInput = 2,     ///< Wrong usage or bad input.
  kNoPlacement = 3,  ///< No valid placement exists or was found.
  kRunFailed = 4,
  kHungUp = 129,       ///< SIGHUP, after a clean stop.
  kInterrupted = 130,  ///< SIGINT, after a clean stop.
  kTerminated = 143,   ///< SIGTERM, after a clean stop.
};
ExitStatus exit_status(Errc code);

/// Declared once, run at most once. Thread: the main one.
class Command {
 public:
  virtual ~Command() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;  ///< One line of `emplace --help`.
  /// The common options (--json, --quiet, --log-level, --seed) are declared already.
  virtual void declare(Options& options) = 0;
  /// Errors become one line on standard error and the exit status of their code.
  virtual Result<ExitStatus> run(Console& console) = 0;
};

using Commands = std::vector<std::unique_ptr<Command>>;

/// Reads the command line, runs the command, prints its error; returns the exit status of the process.
int run_command_line(int argc, const char* const* argv, const Commands& commands);

}  // namespace emplace::launcher

#pragma once
/// One command of `emplace`: its options and its action. Commands are in launcher/placing and
/// launcher/commands.

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/terminal/console.h"
#include "launcher/terminal/options.h"

namespace emplace::launcher {

/// Exit status of the process. INTERFACE: part of the contract.
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

/// A command declares its options once and runs at most once. Thread: the main one.
class Command {
 public:
  /// `summary`: one line of `emplace --help`; empty: not listed there. `example`: a command line that works
  /// from a checkout, for the command's own --help; empty: none is shown.
  Command(std::string_view name, std::string_view summary, std::string_view example = {})
      : name_{name}, summary_{summary}, example_{example} {}
  virtual ~Command() = default;
  std::string_view name() const { return name_; }
  std::string_view summary() const { return summary_; }
  std::string_view example() const { return example_; }
  /// Declares the command's own options; the common ones (--json, --quiet, --log-level, --seed) are declared
  /// elsewhere.
  virtual void declare(Options& options) = 0;
  /// Runs the command. An error is printed as one line on standard error; its code decides the exit status.
  virtual Result<ExitStatus> run(Console& console) = 0;

 private:
  const std::string_view name_, summary_, example_;
};

using Commands = std::vector<std::unique_ptr<Command>>;

/// Reads the command line, runs the command, prints its error; returns the exit status of the process.
int run_command_line(int argc, const char* const* argv, const Commands& commands);

}  // namespace emplace::launcher

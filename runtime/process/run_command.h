#pragma once
/// Runs a command to its end, and finds programs.

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace emplace::process {

/// The result of a command.
struct Ran {
  int status = 0;      ///< Exit status; 128 plus the signal's number if a signal ended it.
  std::string output;  ///< Standard output.
  std::string errors;  ///< Standard error.
  /// Returns the last non-empty line of `errors`, or of `output` if there is none.
  std::string last_line() const;
};

struct RunOptions {
  std::string input = {};                     ///< File for its standard input; empty: no input.
  std::vector<std::string> environment = {};  ///< "NAME=value" entries that override ours.
  Nanos limit{0};                             ///< The program is killed after this time; 0: never.
  bool own_group = false;                     ///< Signals typed at our terminal do not reach it.
};

/// Runs a program (a path, or a name in PATH) and waits for its end. Errors: kInvalid, it cannot be started;
/// kDeadline, it was killed. Thread: any; blocks.
Result<Ran> run_command(const std::string& program, const std::vector<std::string>& arguments,
                        const RunOptions& options = {});

/// Returns the path of a program in PATH; a name with a slash is a path already. Empty: not found.
std::optional<std::string> find_program(const std::string& name);

}  // namespace emplace::process

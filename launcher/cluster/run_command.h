#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace emplace::launcher {

/// The result of a command.
struct Ran {
  int status = 0;      ///< Exit status; 128 plus the signal's number if a signal ended it.
  std::string output;  ///< Standard output.
  std::string errors;  ///< Standard error.
  /// Returns the last non-empty line of `errors`, or of `output` if there is none.
  std::string last_line() const;
};

/// Runs a program (from PATH) and waits for its end. `input`: file for its standard input; empty: no input.
/// Errors (kInvalid): it cannot be started. Thread: any; blocks.
Result<Ran> run_command(const std::string& program, const std::vector<std::string>& arguments,
                        const std::string& input = "");

/// Returns the path of a program in PATH. Errors (kInvalid): not found.
Result<std::string> find_program(const std::string& name);

}  // namespace emplace::launcher

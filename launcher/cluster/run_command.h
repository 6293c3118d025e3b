#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace emplace::launcher {

/// A command that has ended.
struct Ran {
  int status = 0;      ///< Its exit status; 128 and the signal's number if it died of one.
  std::string output;  ///< What it wrote,
  std::string errors;  ///< and what it wrote on standard error.
  /// The last of either that is not empty; errors first.
  std::string last_line() const;
};

/// Runs a program (looked up in PATH) to its end. `input`: a file that becomes its standard input; empty:
/// nothing. Errors (kInvalid): it cannot be started. Thread: any; it waits.
Result<Ran> run_command(const std::string& program, const std::vector<std::string>& arguments,
                        const std::string& input = "");

/// Where PATH has it. Errors (kInvalid): nowhere.
Result<std::string> find_program(const std::string& name);

}  // namespace emplace::launcher

#pragma once
/// Hosts or a batch system that a script of this folder provides during a test.

#include <sys/types.h>

#include <optional>
#include <string>

#include "tests/system/process.h"

namespace emplace::testing {

/// A running script. Thread: one.
class ScriptedWorld {
 public:
  /// Starts `script FOLDER NUMBER` and waits until it is ready.
  ScriptedWorld(const std::string& script, const std::string& folder, int number);
  ~ScriptedWorld();  ///< Ends the script and all its processes.
  ScriptedWorld(const ScriptedWorld&) = delete;
  ScriptedWorld& operator=(const ScriptedWorld&) = delete;

  /// Why this machine cannot provide it; empty if it is available.
  const std::string& missing() const { return missing_; }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_, missing_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
};

/// Runs a program of the machine to its end; returns its output and errors.
struct Output {
  int status = -1;
  std::string text;
};
Output shell(const std::string& command);

}  // namespace emplace::testing

#pragma once
/// Supervises the processes of a run: reads their lines, restarts processes that die, and ends all of them
/// with the launcher. The rules are in runtime::Supervisor.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/core/supervisor.h"
#include "runtime/process/child_process.h"

namespace emplace::launcher {

/// A program to start.
struct Program {
  std::string path;
  std::vector<std::string> arguments;
  std::string input;  ///< First data on its standard input. @pre at most 64 KiB: writing it must not block.
};

/// One process to keep alive.
struct Child {
  std::string name;
  int end_step = 0;                      ///< Shutdown order; see Supervisor::Node.
  std::vector<std::string> environment;  ///< "NAME=value", added to our environment.
  /// Represents a remote process: closing its standard input ends it, and if it dies before it was ever
  /// ready, the host is considered unusable.
  bool elsewhere = false;
  std::string host = {};  ///< Host of a remote process, for messages.
};

/// The processes to run, and callbacks. Every function is called on the supervising thread.
struct Supervised {
  std::vector<Child> children;  ///< The head first.
  runtime::SupervisorOptions options;
  /// Returns the program of a child; called before each incarnation.
  std::function<Result<Program>(std::size_t child)> program;
  /// Called when a child takes part in the run, with the endpoint that it has bound.
  std::function<void(std::size_t child, const std::string& endpoint)> on_ready;
  /// Called for each line of standard output that the supervisor does not handle.
  std::function<void(const std::string& line)> on_line;
  /// Called after on_line(): lines for the standard input of children, by index. Null: none. A child that is
  /// not running, or does not read, loses its line.
  std::function<std::map<std::size_t, std::string>()> orders = nullptr;
  /// Called for a line that a child has for the user.
  std::function<void(std::size_t child, const std::string& note)> on_note = [](std::size_t,
                                                                               const std::string&) {};
  /// Called for an exit or a failed start that leads to a restart: "was ended by signal 9 (Killed)".
  std::function<void(std::size_t child, const std::string& note)> on_death;
  /// Whether the run is over with these children, even if it ends neither by a signal nor by a failure.
  bool last_start = true;
  process::Spawner* spawner = &process::system_spawner();  ///< Starts the processes.
};

/// The result of supervise().
struct Ended {
  int received_signal = 0;    ///< SIGINT, SIGTERM or SIGHUP that ended the run; 0: none.
  std::vector<int> restarts;  ///< [children] Number of restarts.
};

/// Runs the children until one of them reports the end of the run or a signal arrives; then ends all of them.
/// A child that exits before that, with or without an error, is restarted. SIGHUP counts unless it was
/// ignored at program start. Errors: kInvalid, kNoPlacement or kRunFailed with the first cause.
Result<Ended> supervise(const Supervised& run);

}  // namespace emplace::launcher

#pragma once
/// The processes of a run, watched: their lines are read, who dies is started again, the launcher's end ends
/// them all. The rules are runtime::Supervisor's.

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/core/supervisor.h"
#include "runtime/process/child_process.h"

namespace emplace::launcher {

/// What is run, word by word.
struct Program {
  std::string path;
  std::vector<std::string> arguments;
  std::string input;  ///< Comes first on its standard input. @pre at most 64 KiB: it is not waited for.
};

/// One process to keep alive.
struct Child {
  std::string name;
  int end_step = 0;                      ///< As Supervisor::Node has it.
  std::vector<std::string> environment;  ///< "NAME=value", on top of ours.
  /// It stands for a process elsewhere: it is asked to end by the end of its standard input, and one that
  /// dies before it was ever ready has no place to run.
  bool elsewhere = false;
  std::string host = {};  ///< For people, where it is elsewhere.
};

/// What is run, and who hears of it. Every function is called on the thread that supervises.
struct Supervised {
  std::vector<Child> children;  ///< The head first.
  runtime::SupervisorOptions options;
  /// Asked before each life.
  std::function<Result<Program>(std::size_t child)> program;
  /// A life takes part, with what it has bound.
  std::function<void(std::size_t child, const std::string& endpoint)> on_ready;
  /// A line of standard output that is not the supervisor's own.
  std::function<void(const std::string& line)> on_line;
  /// A death or a failed start that will be mended: "was ended by signal 9 (Killed)".
  std::function<void(std::size_t child, const std::string& note)> on_death;
  process::Spawner* spawner = &process::system_spawner();  ///< Starts the processes.
};

/// How it all ended.
struct Ended {
  int received_signal =
      0;  ///< SIGINT, SIGTERM or SIGHUP that the launcher got and ended the run for; 0: none.
  std::vector<int> restarts;  ///< By child.
};

/// Runs the children until one of them says that the run is over, or a signal does; then none of them is
/// left. Whoever ends before that, well or not, is started again. SIGHUP counts unless it was ignored when
/// this program was started. Errors: kInvalid, kNoPlacement or kRunFailed: the first cause.
Result<Ended> supervise(const Supervised& run);

}  // namespace emplace::launcher

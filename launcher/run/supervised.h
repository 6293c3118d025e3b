#pragma once
/// One child process that is watched: its lines are read, its death is noticed, the launcher's end ends it.

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace emplace::launcher {

/// How the child ended.
struct Ended {
  int exit_status = 0;  ///< If it exited by itself.
  int signal = 0;       ///< That killed it; 0: none did.
  int received_signal =
      0;  ///< SIGINT or SIGTERM that the launcher got meanwhile and handed on as SIGTERM; 0: none.
  std::string last_words;  ///< What it wrote to standard error last.
};

/// Runs `program` with `arguments` until it ends; `on_line` gets each line of its standard output, on this
/// thread. Errors: kRunFailed if it cannot be started.
Result<Ended> supervise(const std::string& program, const std::vector<std::string>& arguments,
                        const std::function<void(const std::string&)>& on_line);

}  // namespace emplace::launcher

#pragma once
/// Starts, signals and reaps every child process of the program. A child is identified by its pidfd, which is
/// bound to that process alone; a pid may be reused by another process.

#include <spawn.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/process/descriptor.h"

namespace emplace::process {

/// Program to start and what it inherits: only the descriptors listed here; an empty signal mask; default
/// signal dispositions, except that an ignored SIGHUP stays ignored (nohup).
struct ChildCommand {
  struct Inherited {
    int ours = -1;
    int theirs = -1;  ///< Descriptor number in the child.
  };
  std::string program;                   ///< Path of the executable; PATH is not searched.
  std::vector<std::string> arguments;    ///< Arguments after the program's name.
  std::vector<std::string> environment;  ///< "NAME=value" entries that override ours.
  std::vector<Inherited> descriptors;    ///< Descriptors 0, 1 and 2 are /dev/null unless listed.
  bool own_group = false;  ///< New process group: signals typed at our terminal do not reach it.
};

/// Exit status or signal of a process that ended.
struct ChildEnd {
  int status = 0;  ///< Exit status, if no signal ended it.
  int signal = 0;  ///< Signal that ended it; 0: it exited.

  bool well() const { return signal == 0 && status == 0; }
  /// Text such as "exit status 3" or "signal 9 (Killed)".
  std::string text() const;
};

/// System calls that fail when a resource runs out; tests inject failures here.
class Spawner {
 public:
  virtual ~Spawner() = default;
  /// Calls posix_spawn. Returns 0 or the error number.
  virtual int spawn(pid_t& pid, const char* program, const posix_spawn_file_actions_t& actions,
                    const posix_spawnattr_t& attributes, char* const* arguments, char* const* environment);
  /// Calls pidfd_open. Returns -1 and sets errno on failure.
  virtual int open_pidfd(pid_t pid);
};
Spawner& system_spawner();

/// A started child. An object always has a child, so that signals only go to a process that we started and
/// have not reaped. Thread: one at a time.
class ChildProcess {
 public:
  /// Errors (kIo): the child cannot be started or watched; then no process is left.
  static Result<ChildProcess> start(const ChildCommand& command, Spawner& spawner = system_spawner());

  ChildProcess(ChildProcess&&) noexcept = default;
  ChildProcess& operator=(ChildProcess&&) = delete;
  /// Kills and reaps the child if it has not been reaped.
  ~ChildProcess();

  /// Process id, for display and logs only.
  pid_t pid() const { return pid_; }
  /// The pidfd: readable once the process has ended.
  int descriptor() const { return pidfd_.get(); }
  /// Sends a signal. Returns false if the process has ended.
  bool signal(int number) const;
  /// Returns how it ended, or empty while it runs; the first result reaps it. Never waits.
  const std::optional<ChildEnd>& try_reap() { return reap(false), end_; }
  /// Waits until it ends and reaps it.
  ChildEnd wait() { return reap(true), *end_; }

 private:
  ChildProcess(pid_t pid, Descriptor pidfd) : pid_{pid}, pidfd_{std::move(pidfd)} {}
  void reap(bool waits);

  pid_t pid_;
  Descriptor pidfd_;  // Closed only by a move or the destructor.
  std::optional<ChildEnd> end_;
};

}  // namespace emplace::process

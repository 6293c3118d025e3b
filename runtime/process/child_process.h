#pragma once
/// The one place where processes are started, signalled and reaped. A child is named by its pidfd, which is
/// bound to that process alone; a number may belong to another process by the time that it is used.

#include <spawn.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/process/descriptor.h"

namespace emplace::process {

/// What is started, and what it inherits: of descriptors only those that are named here; of signals no mask
/// and the default dispositions, except that SIGHUP stays ignored where it is (nohup).
struct ChildCommand {
  struct Inherited {
    int ours = -1;
    int theirs = -1;  ///< The number at which the child finds it.
  };
  std::string program;                   ///< Its file; PATH is not searched.
  std::vector<std::string> arguments;    ///< After the program's name.
  std::vector<std::string> environment;  ///< "NAME=value", over ours.
  std::vector<Inherited> descriptors;    ///< 0, 1 and 2 are /dev/null where they are not named.
  bool own_group = false;                ///< What is typed at our terminal does not signal it.
};

/// How a process ended.
struct ChildEnd {
  int status = 0;  ///< Its exit status, if it was not ended by a signal.
  int signal = 0;  ///< 0: it exited.

  bool well() const { return signal == 0 && status == 0; }
  /// "exit status 3", "signal 9 (Killed)".
  std::string text() const;
};

/// The system's calls that fail when something has run out; a test makes them fail.
class Spawner {
 public:
  virtual ~Spawner() = default;
  /// posix_spawn: 0 or the error's number.
  virtual int spawn(pid_t& pid, const char* program, const posix_spawn_file_actions_t& actions,
                    const posix_spawnattr_t& attributes, char* const* arguments, char* const* environment);
  /// pidfd_open: -1 and errno if it fails.
  virtual int open_pidfd(pid_t pid);
};
Spawner& system_spawner();

/// A child that was started. There is no object without a child: whatever is signalled here is a process that
/// we started and have not reaped. Thread: one at a time.
class ChildProcess {
 public:
  /// Errors (kIo): it cannot be started or cannot be watched; then no process of it is left.
  static Result<ChildProcess> start(const ChildCommand& command, Spawner& spawner = system_spawner());

  ChildProcess(ChildProcess&&) noexcept = default;
  ChildProcess& operator=(ChildProcess&&) = delete;
  /// Kills and reaps it if it has not been reaped.
  ~ChildProcess();

  /// For people and logs only.
  pid_t pid() const { return pid_; }
  /// Readable once the process has ended.
  int descriptor() const { return pidfd_.get(); }
  /// False: it has ended, and nobody got the signal.
  bool signal(int number) const;
  /// How it ended, once it has; the process is reaped with the first such answer. Never waits.
  const std::optional<ChildEnd>& try_reap() { return reap(false), end_; }
  /// Waits for its end.
  ChildEnd wait() { return reap(true), *end_; }

 private:
  ChildProcess(pid_t pid, Descriptor pidfd) : pid_{pid}, pidfd_{std::move(pidfd)} {}
  void reap(bool waits);

  pid_t pid_;
  Descriptor pidfd_;  // Closed only by a move and the end.
  std::optional<ChildEnd> end_;
};

}  // namespace emplace::process

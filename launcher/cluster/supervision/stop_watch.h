#pragma once
/// Turns signals, the end of standard input and the end of the parent into requests to stop the current node,
/// and reads from standard input whether the run is over.

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "runtime/node.h"
#include "runtime/process/descriptor.h"

namespace emplace::launcher {

/// Stops the guarded node on SIGTERM, and by its rules on SIGINT, SIGHUP, the end of standard input or the
/// end of the parent process. At most one instance. Thread: constructed and destroyed on the main thread,
/// while no other thread exists.
class StopWatch {
 public:
  struct Rules {
    bool interrupt;  ///< SIGINT and SIGHUP stop the node; otherwise they are ignored (the launcher handles
                     ///< them).
    bool standard_input;  ///< The end of standard input stops the node.
    /// The end of the parent process stops the node, too, also if this process is stopped (SIGSTOP). After
    /// either end this process is killed if it has not ended within kGrace. A parent in an outer PID
    /// namespace is not visible: only standard input ends then.
    bool parent = false;
  };
  static constexpr std::chrono::seconds kGrace{8};  ///< Above NodeOptions::drain_deadline.
  /// Blocks the signals for all later threads. A SIGHUP that was ignored at program start stays ignored.
  /// Throws std::system_error if no descriptor or thread is available.
  explicit StopWatch(Rules rules);
  ~StopWatch();
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

  /// Sets the node to stop; stops it at once if a stop was requested before. Null: no node.
  void guard(runtime::Node* node);
  /// Returns whether a stop was requested.
  bool requested() const;
  /// Returns the signal that requested the stop; 0: none.
  int received() const;
  /// Returns whether the launcher wrote kOverLine to standard input: no other start of the run follows.
  bool over() const;

 private:
  void stop(const std::string& why, int signal);
  void read_input();
  void watch_parent();
  void leave(const std::string& why);
  void watch();

  const Rules rules_;
  const sigset_t handled_;
  const process::Descriptor done_, signals_;
  process::Descriptor parent_;  // The parent's pidfd, if its end matters.
  sigset_t before_{};
  mutable Mutex mutex_;
  runtime::Node* node_ EMPLACE_GUARDED_BY(mutex_) = nullptr;
  std::string asked_ EMPLACE_GUARDED_BY(mutex_);
  int received_ EMPLACE_GUARDED_BY(mutex_) = 0;
  bool over_ EMPLACE_GUARDED_BY(mutex_) = false;
  std::string input_;  // The newest bytes of standard input. Thread: thread_.
  bool input_ended_ = false;
  std::jthread thread_;
};

}  // namespace emplace::launcher

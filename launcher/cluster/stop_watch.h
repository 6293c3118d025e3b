#pragma once
/// Signals, and the end of standard input, as a wish to stop whatever node is at hand.

#include <csignal>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "runtime/node.h"
#include "runtime/process/descriptor.h"

namespace emplace::launcher {

/// Stops the node at hand on SIGTERM, and as the rules say on SIGINT, SIGHUP or when standard input ends.
/// One at a time. Thread: made and ended on the main one, before and after any other but its own.
class StopWatch {
 public:
  struct Rules {
    bool
        interrupt;  ///< SIGINT and SIGHUP stop it; otherwise they are the launcher's and pass without effect.
    bool standard_input;  ///< Its end stops it.
  };
  /// Signals are blocked for all threads that come. A SIGHUP that was ignored when the program was started
  /// stays ignored. Throws std::system_error if no descriptor or thread is left.
  explicit StopWatch(Rules rules);
  ~StopWatch();
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

  /// From now on it is this one that is stopped, at once if that was asked already; null: none.
  void guard(runtime::Node* node);
  bool asked() const;
  /// The signal that asked; 0: none did.
  int received() const;

 private:
  void stop(const std::string& why, int signal);
  void watch();

  const Rules rules_;
  const sigset_t handled_;
  const process::Descriptor done_, signals_;
  sigset_t before_{};
  mutable Mutex mutex_;
  runtime::Node* node_ EMPLACE_GUARDED_BY(mutex_) = nullptr;
  std::string asked_ EMPLACE_GUARDED_BY(mutex_);
  int received_ EMPLACE_GUARDED_BY(mutex_) = 0;
  std::jthread thread_;
};

}  // namespace emplace::launcher

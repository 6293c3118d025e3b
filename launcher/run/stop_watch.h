#pragma once
/// Signals, and the end of standard input, as a wish to stop whatever node is at hand.

#include <csignal>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/node.h"

namespace emplace::launcher {

/// Stops the node at hand on SIGTERM and SIGHUP, and as the rules say on SIGINT or when standard input ends.
/// One at a time. Thread: made and ended on the main one, before and after any other but its own.
class StopWatch {
 public:
  struct Rules {
    bool interrupt, standard_input;
  };
  /// Signals are blocked for all threads that come.
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
  const int done_;
  sigset_t before_{};
  mutable std::mutex mutex_;
  runtime::Node* node_ = nullptr;  // Guarded by mutex_, as are the next two.
  std::string asked_;
  int received_ = 0;
  std::jthread thread_;
};

}  // namespace emplace::launcher

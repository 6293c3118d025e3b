#pragma once
/// SIGINT and SIGTERM as something a loop can ask about.

namespace emplace::launcher {

/// While it lives, the first SIGINT or SIGTERM is only noted; the second ends the process at once. One at a
/// time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The signal's number; 0 while there was none. Any thread.
  int received() const;
};

}  // namespace emplace::launcher

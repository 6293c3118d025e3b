#pragma once
/// SIGINT and SIGTERM as a flag that a loop can poll.

namespace emplace::launcher {

/// While an instance exists, the first SIGINT or SIGTERM only sets the flag; the second ends the process at
/// once. At most one instance at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Returns the number of the first signal; 0 before it. Any thread.
  int received() const;
};

}  // namespace emplace::launcher

#pragma once
/// SIGINT and SIGTERM as a flag that a loop can poll.

namespace emplace::launcher {

/// While an instance exists, the first SIGINT or SIGTERM only sets the flag; the second ends the process at
/// once. Instances may nest: they share the flag, which the outermost clears and whose handlers it removes.
/// Thread: one, but for received().
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Returns the number of the first signal; 0 before it. Any thread.
  int received() const;
  /// Installs the handlers again after other code has replaced and removed them, and sets the flag to the
  /// signal that this code received; 0: none.
  void take_over(int signal);
};

}  // namespace emplace::launcher

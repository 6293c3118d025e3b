#pragma once
/// Signals that a process ignores by itself or by request of its parent.

#include <csignal>

namespace emplace::process {

/// Call first in main(), before any thread starts. Ignores SIGXFSZ, so that a file-size limit becomes a write
/// error like a full disk. Keeps ended children until they are reaped, even if SIGCHLD was ignored at start.
/// Occupies closed standard descriptors with /dev/null, so that no file opened later gets their numbers.
void prepare_process();

/// Turns a write to a closed pipe into a write error. For programs that continue without their reader.
void ignore_broken_pipes();

/// Whether SIGHUP was ignored when this program started (nohup). It must then stay ignored, here and in every
/// child.
bool hangups_are_ignored();

/// While it exists, this thread and the threads that it starts receive no signals: those go to other threads.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// Collects the signals that end a program, so that a thread can wait for the first. SIGHUP counts unless it
/// was ignored at program start. Thread: constructed on the main thread, before other threads start.
class EndSignals {
 public:
  EndSignals();
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;
  /// Waits for a signal and returns its number.
  int wait() const;

 private:
  sigset_t wanted_, before_;
};

/// Keeps ended children as zombies until they are reaped, so that their pids are not reused.
void keep_ended_children();

}  // namespace emplace::process

#include "runtime/process/signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <initializer_list>

namespace emplace::process {
namespace {

void set_disposition(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(signal, &action, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
         now.sa_handler == SIG_IGN;
}

/// Opens them in the wrong direction, so that any use still fails.
void occupy_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free number, which is this one. If none is left, nothing else can take it
    // either.
    if (::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

}  // namespace

void keep_ended_children() {
  struct sigaction now {};
  if (::sigaction(SIGCHLD, nullptr, &now) != 0) return;
  if (is_ignored(SIGCHLD) || (now.sa_flags & SA_NOCLDWAIT) != 0) set_disposition(SIGCHLD, SIG_DFL);
}

void prepare_process() {
  occupy_standard_descriptors();
  set_disposition(SIGXFSZ, SIG_IGN);
  keep_ended_children();
}

void ignore_broken_pipes() { set_disposition(SIGPIPE, SIG_IGN); }

SignalsBlocked::SignalsBlocked() : before_{} {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

EndSignals::EndSignals() : wanted_{}, before_{} {
  sigemptyset(&wanted_);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&wanted_, signal);
  if (!hangups_are_ignored()) sigaddset(&wanted_, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &wanted_, &before_);
}

EndSignals::~EndSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

int EndSignals::wait() const {
  int signal = 0;
  while (::sigwait(&wanted_, &signal) != 0) {
  }
  return signal;
}

bool hangups_are_ignored() { return is_ignored(SIGHUP); }

}  // namespace emplace::process

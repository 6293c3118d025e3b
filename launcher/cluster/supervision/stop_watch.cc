#include "launcher/cluster/supervision/stop_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "launcher/cluster/supervision/node_lines.h"
#include "runtime/process/child_process.h"
#include "runtime/process/signals.h"

namespace emplace::launcher {
namespace {

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&set, signal);
  // Leave an ignored SIGHUP out: once blocked, it would be read from the signalfd.
  if (!process::hangups_are_ignored()) sigaddset(&set, SIGHUP);
  return set;
}

process::Descriptor opened(int fd) {
  if (fd < 0) throw std::system_error{errno, std::generic_category(), "cannot watch signals"};
  return process::Descriptor{fd};
}

}  // namespace

StopWatch::StopWatch(Rules rules)
    : rules_{rules},
      handled_{handled_signals()},
      done_{opened(::eventfd(0, EFD_CLOEXEC))},
      signals_{opened(::signalfd(-1, &handled_, SFD_CLOEXEC))} {
  ::pthread_sigmask(SIG_BLOCK, &handled_, &before_);
  if (rules_.parent) watch_parent();
  thread_ = std::jthread{[this] { watch(); }};
}

StopWatch::~StopWatch() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(done_.get(), &one, sizeof one);
  thread_.join();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopWatch::guard(runtime::Node* node) {
  const MutexLock lock{mutex_};
  node_ = node;
  if (node_ != nullptr && !asked_.empty()) node_->stop(asked_);
}

bool StopWatch::requested() const {
  const MutexLock lock{mutex_};
  return !asked_.empty();
}

int StopWatch::received() const {
  const MutexLock lock{mutex_};
  return received_;
}

bool StopWatch::over() const {
  const MutexLock lock{mutex_};
  return over_;
}

void StopWatch::stop(const std::string& why, int signal) {
  const MutexLock lock{mutex_};
  if (asked_.empty()) {
    asked_ = why;
    received_ = signal;
  }
  if (node_ != nullptr) node_->stop(why);
}

/// The pidfd reports the end of the process, not that of the thread that started us, as the signal does; the
/// signal wakes this process if it is stopped.
void StopWatch::watch_parent() {
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  const pid_t parent = ::getppid();
  if (parent > 0) parent_ = process::Descriptor{process::system_spawner().open_pidfd(parent)};
  if (::getppid() != parent) leave("the parent process is gone");  // It ended before it was watched.
}

/// Stops the node, and ends this process by SIGALRM if that takes too long.
void StopWatch::leave(const std::string& why) {
  stop(why, 0);
  if (!rules_.parent) return;
  sigset_t alarm;
  ::sigemptyset(&alarm);
  ::sigaddset(&alarm, SIGALRM);
  (void)std::signal(SIGALRM, SIG_DFL);
  ::pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
  ::alarm(static_cast<unsigned>(kGrace.count()));
}

void StopWatch::read_input() {
  std::array<char, 64> block{};
  const ssize_t size = ::read(STDIN_FILENO, block.data(), block.size());
  if (size <= 0) {
    input_ended_ = true;
    return leave(rules_.parent ? "standard input has ended" : "the launcher is gone");
  }
  input_.append(block.data(), static_cast<std::size_t>(size));
  if (input_.find(kOverLine) != std::string::npos) {
    const MutexLock lock{mutex_};
    over_ = true;
  }
  input_.erase(0, input_.size() - std::min(input_.size(), kOverLine.size()));
}

void StopWatch::watch() {
  const int input = rules_.standard_input ? STDIN_FILENO : -1;
  std::array<pollfd, 4> sources{{{signals_.get(), POLLIN, 0},
                                 {done_.get(), POLLIN, 0},
                                 {input, POLLIN, 0},
                                 {parent_.get(), POLLIN, 0}}};
  while (::poll(sources.data(), sources.size(), -1) >= 0 || errno == EINTR) {
    if (sources[1].revents != 0) break;
    // The launcher writes before it sends SIGTERM, so that its words are known before the node stops.
    if (sources[2].revents != 0) read_input();
    if (input_ended_) sources[2].fd = -1;
    if (sources[0].revents != 0) {
      signalfd_siginfo info{};
      const bool got = ::read(signals_.get(), &info, sizeof info) == sizeof info;
      if (got && (info.ssi_signo == SIGTERM || rules_.interrupt))
        stop("signal", static_cast<int>(info.ssi_signo));
    }
    if (sources[3].revents != 0) {
      sources[3].fd = -1;
      leave("the parent process is gone");
    }
  }
}

}  // namespace emplace::launcher

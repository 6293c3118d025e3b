#include "runtime/process/child_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <system_error>

#include "base/text/words.h"
#include "runtime/process/signals.h"

// glibc 2.36 declares these without C linkage for C++.
extern "C" {
#include <sys/pidfd.h>
}

extern char** environ;

namespace emplace::process {
namespace {

/// Our environment with `changes` ("NAME=value") applied.
std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable{*entry};
    const bool changed = std::any_of(changes.begin(), changes.end(), [&](const std::string& change) {
      return variable.starts_with(std::string_view{change}.substr(0, change.find('=') + 1));
    });
    if (!changed) all.emplace_back(variable);
  }
  all.insert(all.end(), changes.begin(), changes.end());
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  all.reserve(words.size() + 1);
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

/// Descriptor actions of the child before the program starts.
class FileActions {
 public:
  FileActions() { failure_ = ::posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;

  void open_null(int fd) {
    note(::posix_spawn_file_actions_addopen(&actions_, fd, "/dev/null",
                                            fd == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0));
  }
  void inherit(int ours, int theirs) { note(::posix_spawn_file_actions_adddup2(&actions_, ours, theirs)); }
  void close_from(int fd) { note(::posix_spawn_file_actions_addclosefrom_np(&actions_, fd)); }
  /// First error number; 0: none.
  int failure() const { return failure_; }
  const posix_spawn_file_actions_t& get() const { return actions_; }

 private:
  void note(int failure) {
    if (failure_ == 0) failure_ = failure;
  }
  posix_spawn_file_actions_t actions_{};
  int failure_ = 0;
};

/// Signals and process group of the child.
class Attributes {
 public:
  explicit Attributes(bool own_group) {
    failure_ = ::posix_spawnattr_init(&attributes_);
    sigset_t none, defaults;
    ::sigemptyset(&none);
    ::sigfillset(&defaults);
    if (hangups_are_ignored()) ::sigdelset(&defaults, SIGHUP);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &defaults);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_,
                               static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                  (own_group ? POSIX_SPAWN_SETPGROUP : 0)));
  }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  int failure() const { return failure_; }
  const posix_spawnattr_t& get() const { return attributes_; }

 private:
  posix_spawnattr_t attributes_{};
  int failure_ = 0;
};

/// Kills and reaps a child without a pidfd, by its pid. The pid cannot have been reused: we have not reaped
/// the child, and nothing else reaps our children.
void end_unwatched(pid_t pid) {
  EMPLACE_CHECK(pid > 0, "a child without a number");
  ::kill(pid, SIGKILL);
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED) != 0 && errno == EINTR) {
  }
}

ChildEnd end_of(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return {.status = info.si_status, .signal = 0};
  return {.status = 0, .signal = info.si_status};
}

/// Descriptors of the child, first copied to numbers where no `theirs` overwrites an `ours` still needed.
struct Wiring {
  FileActions actions;
  std::vector<Descriptor> copies;

  Result<Unit> make(const std::vector<ChildCommand::Inherited>& descriptors) {
    int most = STDERR_FILENO;
    for (const auto& one : descriptors) most = std::max(most, one.theirs);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
      const bool named = std::any_of(descriptors.begin(), descriptors.end(),
                                     [&](const auto& one) { return one.theirs == fd; });
      if (!named) actions.open_null(fd);
    }
    for (const auto& [ours, theirs] : descriptors) {
      if (ours > most) {
        actions.inherit(ours, theirs);
        continue;
      }
      EMPLACE_TRY_ASSIGN(auto copy, duplicate(ours, most + 1));
      actions.inherit(copy.get(), theirs);
      copies.push_back(std::move(copy));
    }
    actions.close_from(most + 1);
    if (actions.failure() != 0) return system_error("posix_spawn_file_actions", actions.failure());
    return Unit{};
  }
};

}  // namespace

std::string ChildEnd::text() const {
  if (signal == 0) return fmt::format("exit status {}", status);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): since glibc 2.32 each thread has a buffer of its own.
  return fmt::format("signal {} ({})", signal, ::strsignal(signal));
}

int Spawner::spawn(pid_t& pid, const char* program, const posix_spawn_file_actions_t& actions,
                   const posix_spawnattr_t& attributes, char* const* arguments, char* const* environment) {
  return ::posix_spawn(&pid, program, &actions, &attributes, arguments, environment);
}
int Spawner::open_pidfd(pid_t pid) { return ::pidfd_open(pid, 0); }

Spawner& system_spawner() {
  static Spawner spawner;
  return spawner;
}

Result<ChildProcess> ChildProcess::start(const ChildCommand& command, Spawner& spawner) {
  const auto refused = [&](const std::string& why) {
    return Error{Errc::kIo, printable(command.program) + ": cannot be started: " + why};
  };
  keep_ended_children();
  Wiring wiring;
  if (const auto made = wiring.make(command.descriptors); !made) return refused(made.error().context);
  // Reserve a descriptor for the pidfd: never start a child that cannot be watched.
  Descriptor reserve{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  if (!reserve.open()) return refused(std::generic_category().message(errno));
  const Attributes attributes{command.own_group};
  if (attributes.failure() != 0) return refused(std::generic_category().message(attributes.failure()));
  std::vector<std::string> arguments{command.program};
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
  std::vector<std::string> environment = environment_with(command.environment);
  pid_t pid = -1;
  const int failure = spawner.spawn(pid, command.program.c_str(), wiring.actions.get(), attributes.get(),
                                    pointers(arguments).data(), pointers(environment).data());
  if (failure != 0) return refused(std::generic_category().message(failure));
  EMPLACE_CHECK(pid > 0, "a child without a number");
  reserve.reset();
  Descriptor pidfd{spawner.open_pidfd(pid)};  // A pidfd is always close-on-exec.
  if (!pidfd.open()) {
    const int cause = errno;
    end_unwatched(pid);
    return refused("pidfd_open: " + std::generic_category().message(cause));
  }
  return ChildProcess{pid, std::move(pidfd)};
}

ChildProcess::~ChildProcess() {
  if (!pidfd_.open() || end_) return;
  signal(SIGKILL);
  reap(true);
}

bool ChildProcess::signal(int number) const {
  return pidfd_.open() && !end_ && ::pidfd_send_signal(pidfd_.get(), number, nullptr, 0) == 0;
}

void ChildProcess::reap(bool waits) {
  EMPLACE_CHECK(pidfd_.open(), "a child that was moved away");
  while (!end_) {
    siginfo_t info{};
    if (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | (waits ? 0 : WNOHANG)) == 0) {
      if (info.si_pid != 0) end_ = end_of(info);
      return;
    }
    // Nothing else reaps our children and SIGCHLD is not ignored, so waitid can only fail with EINTR.
    EMPLACE_CHECK(errno == EINTR, std::generic_category().message(errno));
  }
}

}  // namespace emplace::process

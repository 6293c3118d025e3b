#include "launcher/exec/helper_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/text/words.h"

extern char** environ;

namespace emplace::launcher {
namespace {

constexpr std::size_t kKeptWords = 600;

/// Ours with some changed.
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
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

/// What posix_spawn does before the program begins.
class FileActions {
 public:
  FileActions(int channel, int errors) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, channel, kChannelFd);
  }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

/// Nothing that this thread has blocked stays blocked there, and what it ignores is not ignored.
class Attributes {
 public:
  Attributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

}  // namespace

Result<std::unique_ptr<HelperProcess>> HelperProcess::start(const HelperCommand& command) {
  const std::string where = printable(command.program.string());
  std::array<int, 2> channel{-1, -1}, errors{-1, -1};
  // Close-on-exec, so that no other child holds them open.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel.data()) != 0 ||
      ::pipe2(errors.data(), O_CLOEXEC) != 0) {
    const int failure = errno;
    for (const int fd : {channel[0], channel[1]})
      if (fd >= 0) ::close(fd);
    return Error{Errc::kIo, where + ": cannot be started: " + std::strerror(failure)};
  }
  // Where the descriptors lie in each other's way they are moved up first.
  const int ours = ::fcntl(channel[0], F_DUPFD_CLOEXEC, 10),
            theirs = ::fcntl(channel[1], F_DUPFD_CLOEXEC, 10),
            read_end = ::fcntl(errors[0], F_DUPFD_CLOEXEC, 10),
            write_end = ::fcntl(errors[1], F_DUPFD_CLOEXEC, 10);
  for (const int fd : {channel[0], channel[1], errors[0], errors[1]}) ::close(fd);
  std::vector<std::string> arguments{command.program.string(), "--parent=" + std::to_string(::getpid())};
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
  std::vector<std::string> environment = environment_with(command.environment);
  const FileActions actions{theirs, write_end};
  const Attributes attributes;
  pid_t pid = -1;
  const int failure = ::posix_spawn(&pid, command.program.c_str(), actions.get(), attributes.get(),
                                    pointers(arguments).data(), pointers(environment).data());
  ::close(theirs);
  ::close(write_end);
  if (failure != 0) {
    ::close(ours);
    ::close(read_end);
    return Error{Errc::kIo, where + ": cannot be started: " + std::strerror(failure)};
  }
  ::fcntl(read_end, F_SETFL, ::fcntl(read_end, F_GETFL) | O_NONBLOCK);
  return std::unique_ptr<HelperProcess>{new HelperProcess{pid, ours, read_end}};
}

HelperProcess::HelperProcess(pid_t pid, int channel, int errors)
    : pid_{pid}, channel_{std::make_unique<Channel>(channel)}, errors_{errors} {}

HelperProcess::~HelperProcess() {
  channel_.reset();  // It ends by itself.
  for (int waited = 0; !status_ && waited < 50; ++waited) {
    (void)ended();
    if (!status_) ::poll(nullptr, 0, 10);
  }
  if (!status_) {
    signal(SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(errors_);
}

void HelperProcess::signal(int signal) const {
  if (!status_) ::kill(pid_, signal);
}

void HelperProcess::read_errors() {
  std::array<char, 4096> piece;
  for (ssize_t got = 0; (got = ::read(errors_, piece.data(), piece.size())) > 0;) {
    words_.append(piece.data(), static_cast<std::size_t>(got));
    if (words_.size() > 4 * kKeptWords) words_.erase(0, words_.size() - kKeptWords);
  }
}

std::optional<std::string> HelperProcess::ended() {
  read_errors();
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  if (!status_) return std::nullopt;
  read_errors();
  std::string words = words_.substr(words_.size() - std::min(words_.size(), kKeptWords));
  while (!words.empty() && words.back() == '\n') words.pop_back();
  std::replace(words.begin(), words.end(), '\n', '/');
  const std::string last = words.empty() ? "" : ": " + printable(words, kKeptWords);
  if (WIFSIGNALED(*status_))
    return "crashed: signal " + std::to_string(WTERMSIG(*status_)) + " (" + ::strsignal(WTERMSIG(*status_)) +
           ")" + last;
  if (WEXITSTATUS(*status_) == kDeviceLostStatus) return "poisoned" + (words.empty() ? ": a device" : last);
  return "crashed: exit status " + std::to_string(WEXITSTATUS(*status_)) + last;
}

void HelperProcess::wait(std::chrono::milliseconds most) {
  std::array<pollfd, 2> fds{
      {{channel_->fd(), static_cast<short>(channel_->flushed() ? POLLIN : POLLIN | POLLOUT), 0},
       {errors_, POLLIN, 0}}};
  ::poll(fds.data(), fds.size(), static_cast<int>(most.count()));
  // A side that is closed is readable at once and for ever.
  if ((fds[1].revents & (POLLHUP | POLLERR)) != 0 && fds[0].revents == 0) ::poll(nullptr, 0, 1);
}

}  // namespace emplace::launcher

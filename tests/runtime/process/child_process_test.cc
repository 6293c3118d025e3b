// Goal: a child exists only if it was started, is signalled and reaped by its pidfd alone, and inherits only
// what it is given; a refusal of the system is an error that leaves no process and no descriptor. Method:
// /bin/sh as the child; a spawner that refuses; tests wait for events of processes, never for a time.
#include "runtime/process/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>

#include "runtime/process/signals.h"

namespace emplace::launcher {
namespace {

using ::testing::HasSubstr;

/// Refuses the given number of times, then spawns as the system does.
class RefusingSpawner final : public process::Spawner {
 public:
  int spawn(pid_t& pid, const char* program, const posix_spawn_file_actions_t& actions,
            const posix_spawnattr_t& attributes, char* const* arguments, char* const* environment) override {
    if (refused_spawns > 0) return --refused_spawns, error;
    const int failure = process::Spawner::spawn(pid, program, actions, attributes, arguments, environment);
    started = pid;
    return failure;
  }
  int open_pidfd(pid_t pid) override {
    if (refused_pidfds == 0) return process::Spawner::open_pidfd(pid);
    --refused_pidfds;
    errno = error;
    return -1;
  }
  int refused_spawns = 0, refused_pidfds = 0, error = EAGAIN;
  pid_t started = 0;
};

/// Sets a signal's disposition and restores it at the end.
class Disposition {
 public:
  Disposition(int signal, void (*handler)(int)) : signal_{signal} {
    struct sigaction action {};
    action.sa_handler = handler;
    ::sigaction(signal, &action, &before_);
  }
  ~Disposition() { ::sigaction(signal_, &before_, nullptr); }
  Disposition(const Disposition&) = delete;
  Disposition& operator=(const Disposition&) = delete;

 private:
  const int signal_;
  struct sigaction before_ {};
};

process::ChildCommand shell(const std::string& script) {
  return {.program = "/bin/sh",
          .arguments = {"-c", script},
          .environment = {},
          .descriptors = {},
          .own_group = false};
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = ::read(fd, piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(got));
  return text;
}

/// Standard output of the child.
std::string output_of(process::ChildCommand command) {
  auto [read_end, write_end] = *process::make_pipe();
  command.descriptors.push_back({write_end.get(), STDOUT_FILENO});
  auto child = process::ChildProcess::start(command);
  EXPECT_TRUE(child.ok()) << child.error().context;
  write_end.reset();
  const std::string text = read_all(read_end.get());
  EXPECT_TRUE((*child).wait().well());
  return text;
}

std::set<int> open_descriptors() {
  std::set<int> fds;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"})
    fds.insert(std::stoi(entry.path().filename().string()));
  return fds;
}

/// A line of a process's status: the signals that it blocks or ignores, by number, without the C library's
/// own (32 and 33).
std::uint64_t signals_in(const std::string& status, const std::string& line) {
  const std::size_t at = status.find(line + ":");
  EXPECT_NE(at, std::string::npos) << status;
  return at == std::string::npos
             ? ~0ULL
             : std::stoull(status.substr(at + line.size() + 1), nullptr, 16) & ~(3ULL << 31);
}

bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

TEST(ChildProcess, ReportsHowItEnded) {
  auto child = process::ChildProcess::start(shell("exit 7"));
  ASSERT_TRUE(child.ok());
  const process::ChildEnd end = (*child).wait();
  EXPECT_EQ(end.text(), "exit status 7");
  EXPECT_FALSE(end.well());
  EXPECT_EQ((*child).wait().status, 7) << "asked again";
  EXPECT_FALSE((*child).signal(SIGTERM)) << "there is no process to signal";
  EXPECT_FALSE(has_children());
}

TEST(ChildProcess, CanBeSignalledAndItsPidfdSignalsItsEnd) {
  auto child = process::ChildProcess::start(shell("kill -STOP $$"));
  ASSERT_TRUE(child.ok());
  EXPECT_FALSE((*child).try_reap().has_value());
  EXPECT_TRUE((*child).signal(SIGKILL));
  pollfd end{(*child).descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&end, 1, 10'000), 1);
  ASSERT_TRUE((*child).try_reap().has_value());
  EXPECT_EQ((*child).try_reap()->text(), "signal 9 (Killed)");
}

TEST(ChildProcess, NoProcessOutlivesItsObject) {
  auto [read_end, write_end] = *process::make_pipe();
  {
    process::ChildCommand command = shell("echo here; read never");
    auto [input, kept_open] = *process::make_pipe();
    command.descriptors = {{input.get(), STDIN_FILENO}, {write_end.get(), STDOUT_FILENO}};
    const auto child = process::ChildProcess::start(command);
    ASSERT_TRUE(child.ok());
    write_end.reset();
    std::array<char, 5> here{};
    ASSERT_EQ(::read(read_end.get(), here.data(), here.size()), 5);
    EXPECT_TRUE(has_children());
  }
  EXPECT_FALSE(has_children());
  EXPECT_EQ(read_all(read_end.get()), "") << "its end of the pipe is closed";
}

TEST(ChildProcess, MovedObjectKeepsItsChild) {
  auto child = process::ChildProcess::start(shell("exit 3"));
  ASSERT_TRUE(child.ok());
  process::ChildProcess moved = *std::move(child);
  EXPECT_EQ(moved.wait().status, 3);
}

TEST(ChildProcess, InheritsOnlyTheGivenDescriptors) {
  const process::Descriptor leak{
      ::open("/dev/null", O_RDONLY)};  // Not close-on-exec, as some libraries open files.
  ASSERT_TRUE(leak.open());
  auto [read_end, write_end] = *process::make_pipe();
  process::ChildCommand command = shell("ls /proc/self/fd");
  command.descriptors = {{read_end.get(), 3}};
  // ls has one more open: the folder that it lists.
  EXPECT_EQ(output_of(command), "0\n1\n2\n3\n4\n");
}

TEST(ChildProcess, OverlappingDescriptorsAreMappedAsRequested) {
  auto [one_read, one_write] = *process::make_pipe();
  auto [two_read, two_write] = *process::make_pipe();
  const int one = one_write.get(), two = two_write.get();
  const auto at = [](int fd) { return "/proc/self/fd/" + std::to_string(fd); };
  process::ChildCommand command = shell("echo one > " + at(two) + "; echo two > " + at(one));
  command.descriptors = {{one, two}, {two, one}};
  auto child = process::ChildProcess::start(command);
  ASSERT_TRUE(child.ok());
  one_write.reset();
  two_write.reset();
  EXPECT_TRUE((*child).wait().well());
  EXPECT_EQ(read_all(one_read.get()), "one\n");
  EXPECT_EQ(read_all(two_read.get()), "two\n");
}

TEST(ChildProcess, StartsWithNoSignalBlockedOrIgnored) {
  const Disposition ignored{SIGUSR1, SIG_IGN};
  sigset_t blocked, before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR2);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const std::string status = output_of(shell("cat /proc/self/status"));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(signals_in(status, "SigBlk"), 0u);
  EXPECT_EQ(signals_in(status, "SigIgn"), 0u);
}

TEST(ChildProcess, IgnoredHangUpStaysIgnored) {
  const Disposition nohup{SIGHUP, SIG_IGN};
  EXPECT_EQ(signals_in(output_of(shell("cat /proc/self/status")), "SigIgn"), 1u << (SIGHUP - 1));
}

TEST(ChildProcess, EnvironmentOverridesOurs) {
  ::setenv("EMPLACE_TEST_A", "ours", 1);
  ::setenv("EMPLACE_TEST_B", "ours", 1);
  process::ChildCommand command = shell("echo $EMPLACE_TEST_A $EMPLACE_TEST_B");
  command.environment = {"EMPLACE_TEST_A=theirs"};
  EXPECT_EQ(output_of(command), "theirs ours\n");
}

TEST(ChildProcess, MayHaveItsOwnProcessGroup) {
  process::ChildCommand command =
      shell("test $(cut -d' ' -f5 /proc/$$/stat) = $$ && echo own || echo shared");
  EXPECT_EQ(output_of(command), "shared\n");
  command.own_group = true;
  EXPECT_EQ(output_of(command), "own\n");
}

TEST(ChildProcess, IsReapedEvenIfSigchldWasIgnored) {
  const Disposition ignored{SIGCHLD, SIG_IGN};  // The system would reap our children itself.
  auto child = process::ChildProcess::start(shell("exit 5"));
  ASSERT_TRUE(child.ok());
  EXPECT_EQ((*child).wait().status, 5);
}

TEST(ChildProcess, MissingProgramIsAnError) {
  const std::set<int> before = open_descriptors();
  const auto child = process::ChildProcess::start({.program = "/no/such/program",
                                                   .arguments = {},
                                                   .environment = {},
                                                   .descriptors = {},
                                                   .own_group = false});
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().context, "/no/such/program: cannot be started: No such file or directory");
  EXPECT_FALSE(has_children());
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ChildProcess, FailedForkIsAnErrorAndLeavesNothing) {
  const std::set<int> before = open_descriptors();
  for (const int error : {EAGAIN, ENOMEM, EMFILE}) {
    RefusingSpawner spawner;
    spawner.refused_spawns = 1;
    spawner.error = error;
    const auto child = process::ChildProcess::start(shell("exit 0"), spawner);
    ASSERT_FALSE(child.ok());
    EXPECT_THAT(child.error().context, HasSubstr(std::strerror(error)));
  }
  EXPECT_FALSE(has_children());
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ChildProcess, UnwatchableChildIsEndedAndReaped) {
  const std::set<int> before = open_descriptors();
  RefusingSpawner spawner;
  spawner.refused_pidfds = 1;
  spawner.error = ENFILE;
  const auto child = process::ChildProcess::start(shell("while :; do :; done"), spawner);
  ASSERT_FALSE(child.ok());
  EXPECT_THAT(child.error().context, HasSubstr("pidfd_open: Too many open files in system"));
  ASSERT_GT(spawner.started, 0);
  EXPECT_FALSE(has_children());
  EXPECT_EQ(open_descriptors(), before);
}

/// With so few descriptors left that a child just can or cannot be started: never a child without a pidfd.
TEST(ChildProcess, DescriptorLimitIsAnErrorOrHarmless) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const std::set<int> open = open_descriptors();
  int refused = 0, started = 0;
  for (rlim_t most = 3; most < static_cast<rlim_t>(*open.rbegin()) + 8; ++most) {
    const rlimit low{most, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    {
      auto child = process::ChildProcess::start(shell("exit 0"));
      child.ok() ? ++started : ++refused;
      if (child) {
        EXPECT_TRUE((*child).wait().well()) << most;
      }
    }
    ::setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_FALSE(has_children()) << most;
  }
  EXPECT_EQ(open_descriptors(), open);
  EXPECT_GT(refused, 0);
  EXPECT_GT(started, 0);
}

}  // namespace
}  // namespace emplace::launcher

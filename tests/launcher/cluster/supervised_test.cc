// Goal: a run continues until one of its processes or a signal ends it, whichever processes die or cannot be
// started meanwhile; then no process is left. Method: shell scripts as the processes, which write the lines
// of nodes; a spawner that refuses; signals that this process sends to itself; backoffs of a millisecond.
#include "launcher/cluster/supervision/supervised.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>
#include <vector>

#include "launcher/cluster/supervision/node_lines.h"

namespace emplace::launcher {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RefusingSpawner final : public process::Spawner {
 public:
  int spawn(pid_t& pid, const char* program, const posix_spawn_file_actions_t& actions,
            const posix_spawnattr_t& attributes, char* const* arguments, char* const* environment) override {
    ++asked;
    if (asked > first && asked <= first + refused) return error;
    return process::Spawner::spawn(pid, program, actions, attributes, arguments, environment);
  }
  int open_pidfd(pid_t pid) override {
    if (refused_pidfds == 0) return process::Spawner::open_pidfd(pid);
    --refused_pidfds;
    errno = EMFILE;
    return -1;
  }
  int first = 0, refused = 0, refused_pidfds = 0, error = EAGAIN, asked = 0;
};

// None of these scripts traps SIGTERM: a shell that reads may miss a signal that arrives just before.
/// Takes part, and waits for SIGTERM.
const std::string kTakesPart = R"(echo '{"ready": ""}'; while :; do read line || exit 0; done)";
/// Takes part, and reports that the run is over.
const std::string kEndsTheRun =
    R"(echo '{"ready": ""}'; echo '{"ending": ""}'; while :; do read line || exit 0; done)";
/// Takes part, and prints "ended" on SIGTERM.
const std::string kPrintsThatItEnds = R"(exec python3 -c '
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("{\"ready\": \"\"}", flush=True)
signal.sigwait([signal.SIGTERM])
print("ended", flush=True)')";

/// Takes part, and on SIGTERM prints the orders that it received.
const std::string kPrintsItsOrders = R"(exec python3 -c '
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("{\"ready\": \"\"}", flush=True)
signal.sigwait([signal.SIGTERM])
os.set_blocking(0, False)
try:
    orders = os.read(0, 100).decode().split()
except BlockingIOError:
    orders = []
print("orders:", *orders, flush=True)')";

/// The script of each start of a process (the last one repeats), and what the processes wrote.
class SupervisedTest : public ::testing::Test {
 protected:
  SupervisedTest() {
    run_.options.first_delay = milliseconds{1};
    run_.options.longest_delay = milliseconds{2};
    run_.options.patience = std::chrono::seconds{5};
    run_.spawner = &spawner_;
    run_.program = [this](std::size_t i) -> Result<Program> {
      const std::vector<std::string>& scripts = scripts_[i];
      const std::size_t start = std::min(starts_[i]++, scripts.size() - 1);
      return Program{"/bin/sh", {"-c", scripts[start]}};
    };
    run_.on_ready = [this](std::size_t i, const std::string&) {
      ++ready_[i];
      if (on_ready) on_ready(i);
    };
    run_.on_line = [this](const std::string& line) { lines_.push_back(line); };
    run_.on_death = [this](std::size_t i, const std::string& note) {
      notes_.push_back(run_.children[i].name + " " + note);
    };
  }
  ~SupervisedTest() override {
    EXPECT_EQ(open_descriptors(), before_) << "no descriptor is left";
    siginfo_t info{};
    EXPECT_NE(::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT), 0) << "no process is left";
  }
  void add(const std::string& name, std::vector<std::string> scripts) {
    run_.children.push_back({.name = name});
    scripts_.push_back(std::move(scripts));
    starts_.push_back(0);
    ready_.push_back(0);
  }

  static std::set<int> open_descriptors() {
    std::set<int> fds;
    for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"})
      fds.insert(std::stoi(entry.path().filename().string()));
    return fds;
  }

  const std::set<int> before_ = open_descriptors();
  RefusingSpawner spawner_;
  Supervised run_;
  std::function<void(std::size_t)> on_ready;
  std::vector<std::vector<std::string>> scripts_;
  std::vector<std::size_t> starts_;
  std::vector<int> ready_;
  std::vector<std::string> lines_, notes_;
};

TEST_F(SupervisedTest, EndsWhenAProcessReportsTheEnd) {
  add("head", {kPrintsThatItEnds});
  add("sampler", {kEndsTheRun});
  const auto ended = supervise(run_);
  ASSERT_TRUE(ended.ok()) << ended.error().context;
  EXPECT_EQ(ended->received_signal, 0);
  EXPECT_THAT(ended->restarts, ElementsAre(0, 0));
  EXPECT_THAT(lines_, ElementsAre("ended"));
}

TEST_F(SupervisedTest, HeadLearnsWhetherTheRunIsOverBeforeItEnds) {
  add("head", {kPrintsItsOrders});
  add("sampler", {kEndsTheRun});
  EXPECT_TRUE(supervise(run_).ok());
  run_.last_start = false;
  EXPECT_TRUE(supervise(run_).ok());
  scripts_[1] = {kTakesPart};
  on_ready = [](std::size_t i) {
    if (i == 1) ::raise(SIGTERM);
  };
  EXPECT_TRUE(supervise(run_).ok());
  on_ready = nullptr;
  scripts_[1] = {"echo 'error: out of graphs' >&2; exit 2"};
  EXPECT_FALSE(supervise(run_).ok());
  EXPECT_THAT(lines_, ElementsAre("orders: over", "orders:", "orders: over", "orders: over"))
      << "the last start, one of several, a signal, a failure";
}

TEST_F(SupervisedTest, ReadsTheFinalOutputOfAProcess) {
  add("head", {R"(echo a line; printf 'cut off'; echo 'out of ideas' >&2; exit 1)", kEndsTheRun});
  const auto ended = supervise(run_);
  ASSERT_TRUE(ended.ok()) << ended.error().context;
  EXPECT_THAT(lines_, ElementsAre("a line", "cut off"));
  EXPECT_THAT(notes_, ElementsAre("head was ended by exit status 1: out of ideas"));
}

TEST_F(SupervisedTest, FailedForkIsAFailedStartAndIsRetried) {
  for (const int error : {EAGAIN, ENOMEM, EMFILE}) {
    run_.children.clear();
    scripts_.clear(), starts_.clear(), ready_.clear(), notes_.clear();
    add("head", {kEndsTheRun});
    spawner_ = {};
    spawner_.error = error;
    spawner_.refused = 3;
    const auto ended = supervise(run_);
    ASSERT_TRUE(ended.ok()) << ended.error().context;
    EXPECT_THAT(ended->restarts, ElementsAre(3));
    ASSERT_EQ(notes_.size(), 3u);
    EXPECT_THAT(notes_[0], AllOf(HasSubstr("head could not be started"), HasSubstr(std::strerror(error))));
  }
}

TEST_F(SupervisedTest, ForkThatAlwaysFailsEndsTheRunWithItsCause) {
  add("head", {kTakesPart});
  spawner_.refused = 1'000;
  const auto ended = supervise(run_);
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code, Errc::kRunFailed);
  EXPECT_THAT(ended.error().context,
              AllOf(HasSubstr("head: failed 6 times within a minute"), HasSubstr(std::strerror(EAGAIN))));
}

TEST_F(SupervisedTest, FailedForkOfOneProcessLeavesTheOthersAlone) {
  add("head", {kTakesPart});
  add("sampler", {kTakesPart});
  // The head has started.
  spawner_.first = 1;
  spawner_.refused = 2;
  on_ready = [](std::size_t i) {
    if (i == 1) ::raise(SIGTERM);
  };
  const auto ended = supervise(run_);
  ASSERT_TRUE(ended.ok()) << ended.error().context;
  EXPECT_THAT(ended->restarts, ElementsAre(0, 2));
  EXPECT_EQ(ended->received_signal, SIGTERM);
}

TEST_F(SupervisedTest, FailedForksAreNoDeathsOfARunningProcess) {
  add("head", {R"(echo '{"ready": ""}'; exit 1)", kEndsTheRun});
  spawner_.first = 1;
  // More failures than the permitted restarts of a minute.
  spawner_.refused = 8;
  const auto ended = supervise(run_);
  ASSERT_TRUE(ended.ok()) << ended.error().context;
  EXPECT_THAT(ended->restarts, ElementsAre(9));
}

TEST_F(SupervisedTest, RestartsAProcessThatCannotBeWatched) {
  add("head", {kEndsTheRun});
  spawner_.refused_pidfds = 2;
  const auto ended = supervise(run_);
  ASSERT_TRUE(ended.ok()) << ended.error().context;
  EXPECT_THAT(ended->restarts, ElementsAre(2));
}

TEST_F(SupervisedTest, RestartsAHeadThatExitsBeforeTheRunEnds) {
  add("head", {R"(echo '{"ready": ""}'; exit 0)", kEndsTheRun});
  const auto ended = supervise(run_);
  ASSERT_TRUE(ended.ok()) << ended.error().context;
  EXPECT_THAT(ended->restarts, ElementsAre(1));
  EXPECT_THAT(notes_, ElementsAre("head was ended by an exit that the run did not request"));
}

TEST_F(SupervisedTest, RestartsAHeadThatASignalEnded) {
  for (const std::string signal : {"HUP", "TERM", "KILL"}) {
    run_.children.clear();
    scripts_.clear(), starts_.clear(), ready_.clear(), notes_.clear();
    add("head", {R"(echo '{"ready": ""}'; kill -)" + signal + " $$", kEndsTheRun});
    const auto ended = supervise(run_);
    ASSERT_TRUE(ended.ok()) << ended.error().context;
    EXPECT_THAT(ended->restarts, ElementsAre(1)) << signal;
    EXPECT_EQ(ended->received_signal, 0);
  }
}

TEST_F(SupervisedTest, DoesNotRetryInvalidInput) {
  add("head", {"echo 'error: graph.json: is missing' >&2; exit 2"});
  const auto ended = supervise(run_);
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code, Errc::kInvalid);
  EXPECT_EQ(ended.error().context, "graph.json: is missing");
}

TEST_F(SupervisedTest, HangUpEndsTheRunGracefullyEvenIfRepeated) {
  add("head", {kPrintsThatItEnds});
  on_ready = [](std::size_t) {
    ::raise(SIGHUP);  // Asio has installed its handler.
    ::raise(SIGHUP);
  };
  const auto ended = supervise(run_);
  ASSERT_TRUE(ended.ok()) << ended.error().context;
  EXPECT_EQ(ended->received_signal, SIGHUP);
  EXPECT_THAT(lines_, ElementsAre("ended")) << "it had time to end by itself";
  sigset_t now;
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &now), 0);
  EXPECT_EQ(::sigismember(&now, SIGHUP), 1) << "a third one does not interrupt the summary of the run";
  ::sigemptyset(&now);
  ::sigaddset(&now, SIGHUP);
  ::pthread_sigmask(SIG_UNBLOCK, &now, nullptr);
}

TEST_F(SupervisedTest, IgnoredHangUpStaysIgnored) {
  const auto before = ::signal(SIGHUP, SIG_IGN);  // Like nohup.
  add("head", {kTakesPart});
  add("sampler", {kEndsTheRun});
  on_ready = [](std::size_t i) {
    if (i == 0) ::raise(SIGHUP);
  };
  const auto ended = supervise(run_);
  ::signal(SIGHUP, before);
  ASSERT_TRUE(ended.ok()) << ended.error().context;
  EXPECT_EQ(ended->received_signal, 0);
  EXPECT_THAT(ready_, ElementsAre(1, 1));
}

TEST_F(SupervisedTest, KillsAProcessThatIgnoresSigterm) {
  run_.options.patience = milliseconds{20};
  add("head", {R"(trap '' TERM; echo '{"ready": ""}'; while :; do read line; done)"});
  on_ready = [](std::size_t) { ::raise(SIGTERM); };
  const auto ended = supervise(run_);
  ASSERT_TRUE(ended.ok()) << ended.error().context;
  EXPECT_EQ(ended->received_signal, SIGTERM);
}

TEST_F(SupervisedTest, EndlessLineTakesBoundedMemory) {
  add("head", {R"(head -c 3000000 /dev/zero | tr '\0' x; echo; )" + kEndsTheRun});
  const auto ended = supervise(run_);
  ASSERT_TRUE(ended.ok()) << ended.error().context;
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_LE(lines_[0].size(), std::size_t{1} << 20);
}

TEST(NodeLines, ReplacesInvalidUtf8) {
  EXPECT_EQ(parse_node_line(ready_line("ipc:///tmp/bad\xff/head.ipc")).text,
            "ipc:///tmp/bad\xef\xbf\xbd/head.ipc");
  EXPECT_EQ(parse_node_line(ending_line("bad\xff")).text, "bad\xef\xbf\xbd");
}

TEST(NodeLines, ShortensAnyFailureToOneReadableLine) {
  const std::string line = ending_line("boo" + std::string(std::size_t{2} << 20, '\x01'));
  EXPECT_LT(line.size(), std::size_t{1} << 20);
  EXPECT_TRUE(parse_node_line(line).text.starts_with("boo"));
}

}  // namespace
}  // namespace emplace::launcher

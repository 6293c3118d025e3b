// Goal: `join --die-with-parent` ends with its parent and with its standard input, and returns its leases
// first. Method: the real program, started by a shell that is killed; its standard input is a FIFO of the
// test.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/clusters/up.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

const SystemClock g_parent_clock;

/// A run without its own executors, whose placements take 300 ms.
Up::Options empty_run() {
  return {.cluster =
              "[head]\nendpoint = \"tcp://127.0.0.1:*\"\ninsecure = true\n"
              "[[node]]\nname = \"executors\"\nroles = [\"executor\"]\nstart = \"join\"\n",
          .settings = {"policy.method=random", "executor.kind=fake", "executor.delay=300ms"}};
}

bool measures(const json& status) {
  return number(status, "executors") == 2 && number(status, "measurements") > 0;
}

/// Process id in ps of the node that has joined; 0: none.
pid_t joined_pid(const json& status) {
  for (const json& node : status.value("nodes", json::array()))
    if (number(node, "executors") > 0) return static_cast<pid_t>(number(node, "pid"));
  return 0;
}

/// Whether the process has ended. After its parent is killed, init is its parent.
bool is_gone(pid_t pid) {
  std::error_code ignored;
  return !std::filesystem::exists("/proc/" + std::to_string(pid) + "/exe", ignored);
}

class ParentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::mkfifo(fifo_.c_str(), 0600), 0);
    ASSERT_NE(up_.address(), "") << up_.finish().err;
  }
  void TearDown() override {
    if (input_ >= 0) ::close(input_);
  }
  /// Starts the program by a shell script with its arguments as "$0" "$@".
  std::unique_ptr<Process> join_by(const std::string& script) {
    return std::make_unique<Process>(
        std::vector<std::string>{"join", up_.address(), "--insecure", "--executors", "2", "--cache",
                                 folder_.at("cache"), "--die-with-parent"},
        Process::Where{.prefix = {"bash", "-c", script}});
  }
  /// Ends the run, and checks that no lease expired although executors left during their work.
  void expect_nothing_expired(std::uint64_t given_back) {
    const json summary = up_.down();
    EXPECT_EQ(summary.value("up_status", -1), 0) << summary.dump(1);
    EXPECT_EQ(number(summary, "lost"), 0u) << summary.dump(1);
    EXPECT_EQ(number(summary, "duplicated"), 0u) << summary.dump(1);
    EXPECT_GE(number(summary.value("leases", json::object()), "refused"), given_back) << summary.dump(1);
  }

  const TemporaryFolder folder_;
  const std::string fifo_ = folder_.at("input");
  Up up_{folder_, "run", empty_run()};
  int input_ = -1;
};

TEST_F(ParentTest, EndOfStandardInputReturnsLeasesWithinASecond) {
  const auto join = join_by("exec \"$0\" \"$@\" <" + fifo_);
  input_ = ::open(fifo_.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_TRUE(up_.wait_until_ps(measures));
  const Nanos started = g_parent_clock.now();
  ::close(std::exchange(input_, -1));
  const Finished ended = join->finish();
  const double took_s = Seconds{g_parent_clock.now() - started}.count();
  std::printf("from the end of standard input to the end of the process: %.2f s\n", took_s);
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_LT(took_s, 1.0);
  EXPECT_TRUE(up_.wait_until_ps([](const json& status) { return number(status, "executors") == 0; }));
  const auto next = join_by("exec \"$0\" \"$@\" <" + fifo_);  // The run continues.
  input_ = ::open(fifo_.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_TRUE(up_.wait_until_ps(measures));
  expect_nothing_expired(1);
}

/// Standard input stays open, so only the end of the parent can be noticed.
constexpr const char* kHeldOpen = "\"$0\" \"$@\" <>";
constexpr const char* kInBackground = " & wait $!";

TEST_F(ParentTest, KilledParentEndsItWithoutLoss) {
  const auto shell = join_by(kHeldOpen + fifo_ + kInBackground);
  ASSERT_TRUE(up_.wait_until_ps(measures)) << shell->err();
  const pid_t pid = joined_pid(up_.ps());
  ASSERT_NE(pid, shell->pid()) << "the shell became the program";
  shell->send(SIGKILL);
  const Nanos started = g_parent_clock.now();
  EXPECT_TRUE(wait_until([&] { return is_gone(pid); }, Seconds{5}));
  std::printf("from SIGKILL of the parent to the end: %.2f s\n",
              Seconds{g_parent_clock.now() - started}.count());
  const auto next = join_by(kHeldOpen + fifo_ + kInBackground);
  ASSERT_TRUE(up_.wait_until_ps(measures));
  expect_nothing_expired(1);
}

TEST_F(ParentTest, StoppedProcessEndsWithItsParent) {
  const auto shell = join_by(kHeldOpen + fifo_ + kInBackground);
  ASSERT_TRUE(up_.wait_until_ps(measures)) << shell->err();
  const pid_t pid = joined_pid(up_.ps());
  ASSERT_NE(pid, 0);
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);  // A process of this test: the shell above started it.
  shell->send(SIGKILL);
  EXPECT_TRUE(wait_until([&] { return is_gone(pid); }, Seconds{15}));
}

TEST_F(ParentTest, EndOfStandardInputBeforeTheStartIsNoticed) {
  const auto join = join_by("exec \"$0\" \"$@\" </dev/null");
  EXPECT_EQ(join->finish().status, 0);
  EXPECT_EQ(number(up_.ps(), "executors"), 0u);
}

TEST_F(ParentTest, ContinueSignalAloneEndsNothing) {
  const auto shell = join_by(kHeldOpen + fifo_ + kInBackground);
  ASSERT_TRUE(up_.wait_until_ps(measures)) << shell->err();
  const pid_t pid = joined_pid(up_.ps());
  const std::uint64_t before = number(up_.ps(), "measurements");
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  EXPECT_TRUE(
      up_.wait_until_ps([&](const json& status) { return number(status, "measurements") > before + 8; }));
  EXPECT_EQ(joined_pid(up_.ps()), pid);
  expect_nothing_expired(0);
}

}  // namespace
}  // namespace emplace::testing

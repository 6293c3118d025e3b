// Goal: `emplace ps --watch` (and `top`, its old name) shows a run of real processes until it ends. Method:
// the real program, on a pseudo-terminal and on a pipe, beside a run that `up` has started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>

#include "tests/clusters/up.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Up::Options watched_run(std::string cluster = "") {
  return {.cluster = "[head]\nendpoint = \"tcp://127.0.0.1:*\"\ninsecure = true\n" + std::move(cluster),
          .settings = {"policy.method=random", "executor.kind=fake", "executor.delay=20ms"}};
}

/// `emplace ps --watch` on a terminal.
std::unique_ptr<Process> watch(const std::string& address) {
  std::vector<std::string> arguments{"ps", address, "--watch"};
  if (address.starts_with("tcp://")) arguments.emplace_back("--insecure");
  return std::make_unique<Process>(
      arguments, Process::Where{.environment = {"TERM=xterm", "NO_COLOR=1"}, .out_is_terminal = true});
}

TEST(PsWatch, RedrawsInPlace) {
  const TemporaryFolder folder;
  Up up{folder, "run", watched_run()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  const auto ps = watch(up.directory());
  EXPECT_TRUE(ps->wait_for_out_text("random on cifar10"));
  EXPECT_TRUE(ps->wait_for_out_text("NODE"));
  // The end of a frame, then the next one from its first line.
  EXPECT_TRUE(ps->wait_for_out_text("\x1b[J\x1b["));
  ps->send(SIGINT);
  const Finished ended = ps->finish();
  EXPECT_EQ(ended.status, 130) << ended.err;
  EXPECT_THAT(ended.out, Not(HasSubstr("\x1b[2m"))) << "NO_COLOR";
  EXPECT_EQ(up.down().value("up_status", -1), 0) << "it has not ended the run";
}

TEST(PsWatch, ShowsWhyNothingRunsAndEndsWithTheRun) {
  const TemporaryFolder folder;
  Up up{folder, "run", watched_run("[[node]]\nname = \"rack\"\nroles = [\"executor\"]\nstart = \"join\"\n")};
  ASSERT_NE(up.address(), "") << up.finish().err;
  const auto ps = watch(up.address());
  EXPECT_TRUE(ps->wait_for_out_text("nothing runs because no executor has joined yet"));
  Process join{
      {"join", up.address(), "--insecure", "--executors", "1", "--cache", folder.at("cache"), "--quiet"}};
  EXPECT_TRUE(ps->wait_for_out_text("executors 1 joined"));
  const pid_t head = head_of(up.directory());
  ASSERT_GT(head, 0);
  ::kill(head, SIGKILL);
  EXPECT_TRUE(up.launcher().wait_for_error_text("restarting from run.db"));
  EXPECT_TRUE(ps->wait_for_out_text("executors 1 joined")) << "it has found the new head";
  EXPECT_EQ(up.down().value("up_status", -1), 0);
  const Finished ended = ps->finish();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.err, "the run has ended\n");
  EXPECT_EQ(join.finish().status, 0);
}

TEST(PsWatch, WaitsForASlowHead) {
  const TemporaryFolder folder;
  Up up{folder, "run", watched_run()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  const auto watching = watch(up.address());
  EXPECT_TRUE(watching->wait_for_out_text("NODE"));
  const pid_t head = head_of(up.directory());
  ASSERT_GT(head, 0);
  ::kill(head, SIGSTOP);
  EXPECT_TRUE(watching->wait_for_out_text("because the head has not answered for 5 s"));
  Process ps{{"ps", up.directory(), "--json"}};  // It repeats its request until the head continues.
  EXPECT_TRUE(watching->wait_for_out_text("because the head has not answered for 9 s"));
  ::kill(head, SIGCONT);
  const Finished listed = ps.finish();
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_TRUE(nlohmann::json::accept(listed.out)) << "one document, not one per request: " << listed.out;
  EXPECT_TRUE(watching->wait_for_out_text("joined, "));
  EXPECT_EQ(up.down().value("up_status", -1), 0);
  EXPECT_EQ(watching->finish().status, 0);
}

TEST(PsWatch, PrintsPlainLinesWithoutATerminal) {
  const TemporaryFolder folder;
  Up up{folder, "run", watched_run()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  for (const Process::Where& where :
       {Process::Where{}, Process::Where{.environment = {"TERM=dumb"}, .out_is_terminal = true}}) {
    Process top{{"top", up.directory()}, where};
    EXPECT_TRUE(top.wait_for_out_text("NODE"));
    EXPECT_TRUE(top.wait_for_out_text("NODE"));
    top.send(SIGINT);
    const Finished ended = top.finish();
    EXPECT_EQ(ended.status, 130);
    EXPECT_EQ(ended.out.find('\x1b'), std::string::npos) << ended.out;
  }
  EXPECT_THAT(run({"--help"}).out, Not(HasSubstr("\n  top "))) << "the old name is not listed";
  EXPECT_EQ(up.down().value("up_status", -1), 0);
}

TEST(PsWatch, MissingHeadIsOneLine) {
  const auto ps = watch("tcp://127.0.0.1:1");
  EXPECT_TRUE(ps->wait_for_out_text("waiting for tcp://127.0.0.1:1 to answer"));
  const Finished ended = ps->finish();
  EXPECT_EQ(ended.status, 4);
  EXPECT_THAT(error_line(ended), StartsWith("error: "));
  EXPECT_THAT(ended.out, ::testing::EndsWith("\x1b[J")) << "the line that waited is erased";
  const TemporaryFolder folder;
  const Finished none = run({"top", folder.at("")});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(error_line(none), HasSubstr("no run is in progress there"));
}

}  // namespace
}  // namespace emplace::testing

// Goal: `emplace top` shows a run of real processes, and the terminal is restored however it ends.
// Method: the real program in its own pseudo-terminal, beside a run that `up` has started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>

#include "tests/clusters/up.h"

namespace emplace::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kEnter = "\x1b[?1049h";
constexpr std::string_view kLeave = "\x1b[?1049l";

Up::Options watched_run(std::string cluster = "") {
  return {.cluster = "[head]\nendpoint = \"tcp://127.0.0.1:*\"\ninsecure = true\n" + std::move(cluster),
          .settings = {"policy.method=random", "executor.kind=fake", "executor.delay=20ms"}};
}

/// Waits for the settings, which are restored shortly after the screen.
void expect_plain_soon(const Process& top) {
  EXPECT_TRUE(wait_until([&] { return top.terminal_is_plain(); }, Seconds{5}));
}

/// `emplace top` in a terminal of 24 rows and 120 columns.
std::unique_ptr<Process> top_of(const std::string& address, std::vector<std::string> prefix = {}) {
  std::vector<std::string> arguments{"top", address};
  if (address.starts_with("tcp://")) arguments.emplace_back("--insecure");
  auto top = std::make_unique<Process>(arguments, Process::Where{.environment = {"TERM=xterm", "NO_COLOR=1"},
                                                                 .out_is_terminal = true,
                                                                 .in_is_terminal = true,
                                                                 .prefix = std::move(prefix)});
  top->resize(24, 120);
  return top;
}

TEST(Top, ShowsARunAnswersKeysAndRestoresTheTerminal) {
  const TemporaryFolder folder;
  Up up{folder, "run", watched_run()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  Process join{
      {"join", up.address(), "--insecure", "--executors", "3", "--cache", folder.at("cache"), "--quiet"}};
  ASSERT_TRUE(
      up.wait_until_ps([](const nlohmann::json& status) { return number(status, "executors") == 4; }));
  const auto top = top_of(up.directory());  // The heuristics and the bound are in the record.
  EXPECT_TRUE(top->wait_for_out_text(kEnter));
  EXPECT_TRUE(top->wait_for_out_text("random on cifar10"));
  EXPECT_TRUE(top->wait_for_out_text("above the bound"));
  EXPECT_TRUE(top->wait_for_out_text("executors 4 joined"));
  EXPECT_TRUE(top->wait_for_out_text("nodes 1-2 of 2, sorted by node"));
  EXPECT_TRUE(top->wait_for_out_text("> head"));
  EXPECT_FALSE(top->terminal_is_plain());
  top->type("s");
  EXPECT_TRUE(top->wait_for_out_text("sorted by busy"));
  top->type("/head\r\x1b[B\r");
  EXPECT_TRUE(top->wait_for_out_text("node head on "));
  EXPECT_TRUE(top->wait_for_out_text("> dispatcher/0"));
  top->type("/view\r\r");
  EXPECT_TRUE(top->wait_for_out_text("actor     view/0"));
  top->resize(10, 30);
  EXPECT_TRUE(top->wait_for_out_text("\n\x1b[2Kesc back")) << "drawn again in the new size";
  top->type("\x1b");  // The Escape key alone.
  EXPECT_TRUE(top->wait_for_out_text("> view/0"));
  top->type("q");
  EXPECT_TRUE(top->wait_for_out_text(kLeave));
  expect_plain_soon(*top);
  const Finished left = top->finish();
  EXPECT_EQ(left.status, 0) << left.err;
  EXPECT_EQ(left.err, "");
  EXPECT_THAT(left.out, EndsWith(kLeave));
  EXPECT_EQ(up.down().value("up_status", -1), 0) << "it has not ended the run";
  EXPECT_EQ(join.finish().status, 0);
}

TEST(Top, RestoresTheTerminalWhenASignalEndsIt) {
  const TemporaryFolder folder;
  Up up{folder, "run", watched_run()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  struct End {
    std::string keys;
    int signal;
    int status;
    bool killed;
  };
  for (const End& end : {End{"\x03", 0, 130, false}, End{"", SIGTERM, 143, false},
                         End{"", SIGHUP, 129, false}, End{"\x1c", 0, 128 + SIGQUIT, true},
                         End{"", SIGSEGV, 128 + SIGSEGV, true}, End{"", SIGABRT, 128 + SIGABRT, true}}) {
    const auto top = top_of(up.directory(), {"sh", "-c", "ulimit -c 0; exec \"$@\"", "--"});
    EXPECT_TRUE(top->wait_for_out_text("> head"));
    top->type(end.keys);
    if (end.signal != 0) top->send(end.signal);
    EXPECT_TRUE(top->wait_for_out_text(kLeave));
    expect_plain_soon(*top);
    const Finished ended = top->finish();
    EXPECT_EQ(ended.status, end.status) << ended.err;
    EXPECT_EQ(ended.killed, end.killed);
    EXPECT_EQ(ended.err, "");
  }
  EXPECT_EQ(up.down().value("up_status", -1), 0);
}

TEST(Top, EndsWithItsTerminalEvenIfHangupsAreIgnored) {
  const TemporaryFolder folder;
  Up up{folder, "run", watched_run()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  const auto top = top_of(up.directory(), {"sh", "-c", "trap '' HUP; exec \"$@\"", "--"});
  EXPECT_TRUE(top->wait_for_out_text("> head"));
  top->hang_up();
  const Finished ended = top->finish();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(up.down().value("up_status", -1), 0);
}

TEST(Top, ReturnsTheTerminalToTheShellWhileItIsStopped) {
  const TemporaryFolder folder;
  Up up{folder, "run", watched_run()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  // A shell with job control; the number in its text is computed so that the echo of the command does not
  // match.
  const auto top = top_of(
      up.directory(),
      {"bash", "-c", "exec 2>&1; set -m; \"$@\"; echo STOPPED $((40 + 2)); read; fg; echo LEFT $?", "--"});
  EXPECT_TRUE(top->wait_for_out_text("> head"));
  EXPECT_FALSE(top->terminal_is_plain());
  top->type("\x1a");
  EXPECT_TRUE(top->wait_for_out_text(kLeave));
  EXPECT_TRUE(top->wait_for_out_text("STOPPED 42"));
  EXPECT_TRUE(top->terminal_is_plain());
  top->type("\n");
  EXPECT_TRUE(top->wait_for_out_text(kEnter));
  EXPECT_TRUE(top->wait_for_out_text("> head"));
  EXPECT_FALSE(top->terminal_is_plain());
  top->type("q");
  EXPECT_TRUE(top->wait_for_out_text(kLeave));
  EXPECT_TRUE(top->wait_for_out_text("LEFT 0"));
  EXPECT_EQ(top->finish().status, 0);
  EXPECT_EQ(up.down().value("up_status", -1), 0);
}

TEST(Top, ShowsWhyNothingRunsAndEndsWithTheRun) {
  const TemporaryFolder folder;
  Up up{folder, "run", watched_run("[[node]]\nname = \"rack\"\nroles = [\"executor\"]\nstart = \"join\"\n")};
  ASSERT_NE(up.address(), "") << up.finish().err;
  const auto top = top_of(up.address());
  EXPECT_TRUE(top->wait_for_out_text("nothing runs because no executor has joined yet"));
  Process join{
      {"join", up.address(), "--insecure", "--executors", "1", "--cache", folder.at("cache"), "--quiet"}};
  EXPECT_TRUE(top->wait_for_out_text("executors 1 joined"));
  const pid_t head = head_of(up.directory());
  ASSERT_GT(head, 0);
  ::kill(head, SIGKILL);
  EXPECT_TRUE(up.launcher().wait_for_error_text("restarting from run.db"));
  EXPECT_TRUE(top->wait_for_out_text("executors 1 joined")) << "it has found the new head";
  EXPECT_EQ(up.down().value("up_status", -1), 0);
  const Finished ended = top->finish();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.err, "the run has ended\n");
  const std::size_t leave = ended.out.rfind(kLeave);
  ASSERT_NE(leave, std::string::npos);
  EXPECT_THAT(ended.out.substr(leave), HasSubstr("best ")) << "what it was is left on the terminal";
  EXPECT_EQ(join.finish().status, 0);
}

TEST(Top, WaitsForASlowHead) {
  const TemporaryFolder folder;
  Up up{folder, "run", watched_run()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  const auto top = top_of(up.address());
  EXPECT_TRUE(top->wait_for_out_text("> head"));
  const pid_t head = head_of(up.directory());
  ASSERT_GT(head, 0);
  ::kill(head, SIGSTOP);
  EXPECT_TRUE(top->wait_for_out_text("because the head has not answered for 5 s"));
  Process ps{{"ps", up.directory(), "--json"}};  // It repeats its request until the head continues.
  EXPECT_TRUE(top->wait_for_out_text("because the head has not answered for 9 s"));
  ::kill(head, SIGCONT);
  EXPECT_TRUE(top->wait_for_out_text("in flight"));
  const Finished listed = ps.finish();
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_TRUE(nlohmann::json::accept(listed.out)) << "one document, not one per request: " << listed.out;
  EXPECT_TRUE(top->wait_for_out_text("nodes 1-1 of 1"));
  EXPECT_EQ(up.down().value("up_status", -1), 0);
  EXPECT_EQ(top->finish().status, 0);
}

TEST(Top, PrintsPlainLinesWithoutATerminal) {
  const TemporaryFolder folder;
  Up up{folder, "run", watched_run()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  for (const Process::Where& where :
       {Process::Where{},
        Process::Where{.environment = {"TERM=dumb"}, .out_is_terminal = true, .in_is_terminal = true}}) {
    Process top{{"top", up.directory()}, where};
    EXPECT_TRUE(top.wait_for_out_text("NODE"));
    EXPECT_TRUE(top.wait_for_out_text("NODE"));
    top.send(SIGINT);
    const Finished ended = top.finish();
    EXPECT_EQ(ended.status, 130);
    EXPECT_EQ(ended.out.find('\x1b'), std::string::npos) << ended.out;
  }
  const Finished once = run({"top", up.directory(), "--json"});
  EXPECT_EQ(once.status, 0) << once.err;
  EXPECT_EQ(nlohmann::json::parse(once.out, nullptr, false).value("method", ""), "random");
  EXPECT_EQ(up.down().value("up_status", -1), 0);
}

TEST(Ps, WatchRedrawsInPlace) {
  const TemporaryFolder folder;
  Up up{folder, "run", watched_run()};
  ASSERT_NE(up.address(), "") << up.finish().err;
  Process ps{{"ps", up.directory(), "--watch"}, {.environment = {"TERM=xterm"}, .out_is_terminal = true}};
  // The end of a frame, then the next one from its first line.
  EXPECT_TRUE(ps.wait_for_out_text("\x1b[J\x1b["));
  ps.send(SIGINT);
  EXPECT_EQ(ps.finish().status, 130);
  EXPECT_EQ(up.down().value("up_status", -1), 0);
}

TEST(Top, MissingHeadIsOneLineOnThePlainTerminal) {
  const auto top = top_of("tcp://127.0.0.1:1");
  EXPECT_TRUE(top->wait_for_out_text("waiting for tcp://127.0.0.1:1 to answer"));
  EXPECT_TRUE(top->wait_for_out_text(kLeave));
  const Finished ended = top->finish();
  EXPECT_EQ(ended.status, 4);
  EXPECT_THAT(error_line(ended), StartsWith("error: "));
  const TemporaryFolder folder;
  const Finished none = run({"top", folder.at("")});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(error_line(none), HasSubstr("no run is in progress there"));
}

}  // namespace
}  // namespace emplace::testing

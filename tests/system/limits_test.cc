// Goal: a run with too few descriptors or processes works or ends with one line and its exit status; it never
// hangs, and never signals a process that it did not start. Method: the real program under each limit, in a
// PID namespace with a witness process that must survive any misdirected signal.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/system/process.h"

namespace emplace::testing {
namespace {

/// Runs its arguments once under each limit of $LIMITS, set by $LIMIT. Prints a line for each: the limit, the
/// exit status, "alive" if the witness is, the number of lines on standard error, the first of them.
constexpr const char* kUnderLimits = R"sh(
sleep 1000 & witness=$!
for limit in $LIMITS; do
  rm -rf "$RUN"
  timeout -k 5 60 $LIMIT$limit "$@" >/dev/null 2>"$ERRORS"
  status=$?
  kill -0 $witness 2>/dev/null && is=alive || is=dead
  echo "$limit $status $is $(wc -l <"$ERRORS") $(head -n 1 "$ERRORS")"
done
kill $witness
)sh";

struct Outcome {
  int limit = 0, status = -1;
  std::string witness;
  int lines = 0;
  std::string first_line;
};

std::vector<std::string> own_pids() {
  std::vector<std::string> words{"unshare"};
  if (::geteuid() != 0) words.emplace_back("--map-root-user");
  words.insert(words.end(), {"--pid", "--fork", "--mount-proc", "--kill-child"});
  return words;
}

/// Why no PID namespace can be created; empty if it can.
std::string why_no_own_pids() {
  std::vector<std::string> prefix = own_pids();
  const Finished tried = run({"--version"}, {.prefix = prefix});
  return tried.status == 0 ? "" : "no PID namespace of our own is allowed here: " + tried.err;
}

/// A second crash ends the run.
constexpr const char* kOneRestart = "[supervision]\nrestarts_per_minute = 1\n";

/// `limit`: the command that sets it, up to its number. `nodes`: the nodes of the cluster.
std::vector<Outcome> run_under(const std::string& limit, const std::string& limits,
                               const TemporaryFolder& folder, const std::string& nodes = "") {
  std::vector<std::string> prefix = own_pids();
  prefix.insert(prefix.end(), {"sh", "-c", kUnderLimits, "sh"});
  const std::vector<std::string> arguments =
      small_run(folder.at("run"), {"--episodes", "3", "--budget", "10s", "--quiet", "--set",
                                   "run.starts=[\"scratch\"]", "--set", "executor.kind=fake", "--cluster",
                                   folder.file("cluster.toml", kOneRestart + nodes)});
  const Finished done =
      run(arguments, {.environment = {"LIMIT=" + limit, "LIMITS=" + limits, "RUN=" + folder.at("run"),
                                      "ERRORS=" + folder.at("errors")},
                      .prefix = prefix});
  EXPECT_EQ(done.status, 0) << done.err;
  std::vector<Outcome> outcomes;
  std::istringstream lines{done.out};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line};
    Outcome& one = outcomes.emplace_back();
    words >> one.limit >> one.status >> one.witness >> one.lines;
    std::getline(words >> std::ws, one.first_line);
  }
  return outcomes;
}

/// Expects each to work or to end with one line. Returns how many worked.
int expect_one_line_or_success(const std::vector<Outcome>& outcomes) {
  int worked = 0;
  for (const Outcome& one : outcomes) {
    EXPECT_EQ(one.witness, "alive") << one.limit;
    if (one.status == 0) ++worked;
    if (one.status == 0) continue;
    // 3: its budget was over before anything was measured.
    EXPECT_TRUE(one.status >= 2 && one.status <= 4)
        << one.limit << ": exit status " << one.status << ", 124: it hung";
    EXPECT_EQ(one.lines, 1) << one.limit;
    EXPECT_TRUE(one.first_line.starts_with("error: ")) << one.limit << ": " << one.first_line;
  }
  return worked;
}

TEST(Limits, OpenFilesEndARunWithOneLineAndHarmNoOtherProcess) {
  if (const std::string why = why_no_own_pids(); !why.empty()) GTEST_SKIP() << why;
  const TemporaryFolder folder;
  // 15 and 16 are where a launcher once killed every process of its user.
  const auto outcomes =
      run_under("prlimit --nofile=",
                "8 9 10 11 12 13 14 15 16 17 18 19 20 22 24 26 28 30 32 36 40 44 48 52 56 60 64 256", folder);
  ASSERT_EQ(outcomes.size(), 28u);
  EXPECT_NE(outcomes.front().status, 0);
  EXPECT_EQ(outcomes.back().status, 0) << outcomes.back().first_line;
  EXPECT_GE(expect_one_line_or_success(outcomes), 1);
}

TEST(Limits, OpenFilesEndARunOfManyProcessesWithOneLine) {
  if (const std::string why = why_no_own_pids(); !why.empty()) GTEST_SKIP() << why;
  const TemporaryFolder folder;
  std::string nodes;
  for (const std::string role : {"recorder", "learner", "sampler", "executor"})
    nodes += "[[node]]\nname = \"" + role + "\"\nroles = [\"" + role + "\"]\n";
  const auto outcomes =
      run_under("prlimit --nofile=", "16 18 20 21 22 23 24 25 26 27 28 29 30 31 32 34 36 64", folder, nodes);
  ASSERT_EQ(outcomes.size(), 18u);
  EXPECT_EQ(outcomes.back().status, 0) << outcomes.back().first_line;
  expect_one_line_or_success(outcomes);
}

TEST(Limits, ProcessesEndARunWithOneLineAndHarmNoOtherProcess) {
  if (const std::string why = why_no_own_pids(); !why.empty()) GTEST_SKIP() << why;
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  // The limit does not apply to root, so root becomes a user id without other processes.
  const std::string user = ::geteuid() == 0 ? "setpriv --reuid=54321 --regid=54321 --clear-groups " : "";
  const auto outcomes = run_under(user + "prlimit --nproc=", "1 2 3 4 5 6 8 10 12 16 64", folder);
  ASSERT_EQ(outcomes.size(), 11u);
  if (outcomes.back().status != 0)
    GTEST_SKIP() << "no other user may run it here: " << outcomes.back().first_line;
  EXPECT_NE(outcomes.front().status, 0);
  EXPECT_GE(expect_one_line_or_success(outcomes), 1);
  for (const Outcome& one : outcomes)
    EXPECT_EQ(one.first_line.find("signal 11"), std::string::npos) << one.limit << ": " << one.first_line;
}

}  // namespace
}  // namespace emplace::testing

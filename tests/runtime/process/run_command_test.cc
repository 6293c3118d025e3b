// Goal: a command is waited for, its output and end are reported, and one that does not end is killed.
// Method: /bin/sh as the command.
#include "runtime/process/run_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>

#include "base/file.h"
#include "tests/support/scratch_folder.h"

namespace emplace::process {
namespace {

using ::testing::HasSubstr;

TEST(RunCommand, ReportsOutputErrorsAndExitStatus) {
  const auto ran = run_command("sh", {"-c", "echo out; echo first >&2; echo last >&2; exit 3"});
  ASSERT_TRUE(ran.ok()) << ran.error().context;
  EXPECT_EQ(ran->status, 3);
  EXPECT_EQ(ran->output, "out\n");
  EXPECT_EQ(ran->errors, "first\nlast\n");
  EXPECT_EQ(ran->last_line(), "last");
  EXPECT_EQ(run_command("sh", {"-c", "kill -9 $$"})->status, 128 + SIGKILL);
  EXPECT_EQ(run_command("sh", {"-c", "echo \"$WORD\""}, {.environment = {"WORD=a b"}})->output, "a b\n");
  // A group of its own has the number of its first process.
  const std::string leads = "test $(cut -d' ' -f5 /proc/$$/stat) = $$";
  EXPECT_EQ(run_command("sh", {"-c", leads}, {.own_group = true})->status, 0);
  EXPECT_EQ(run_command("sh", {"-c", leads})->status, 1);
}

TEST(RunCommand, KillsACommandAtItsDeadline) {
  const emplace::testing::ScratchFolder folder{"run-command"};
  const std::string file = (folder.path() / "pid").string();
  const auto ran = run_command("sh", {"-c", "echo $$ > " + file + "; exec sleep 600"},
                               {.limit = std::chrono::milliseconds{300}});
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().code, Errc::kDeadline);
  EXPECT_THAT(ran.error().context, HasSubstr("sh: no end after 1 s"));
  int pid = 0;
  std::ifstream{file} >> pid;
  ASSERT_GT(pid, 0);
  EXPECT_FALSE(read_file("/proc/" + std::to_string(pid) + "/stat").ok()) << "reaped, too";
}

TEST(RunCommand, FindsProgramsByNameOrPath) {
  EXPECT_THAT(find_program("sh").value_or(""), ::testing::EndsWith("/sh"));
  EXPECT_EQ(find_program("no-such-program-anywhere"), std::nullopt);
  const auto ran = run_command("no-such-program-anywhere", {});
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().context, "no-such-program-anywhere: is not installed");
  EXPECT_FALSE(run_command("/no/such/program", {}).ok());
}

}  // namespace
}  // namespace emplace::process

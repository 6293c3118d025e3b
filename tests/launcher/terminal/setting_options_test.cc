// Goal: options that are made from settings read what was given, keep defaults otherwise, and refuse bad
// values in one line. Method: a command with one setting of each kind, run by the real parser.
#include "launcher/terminal/setting_options.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "launcher/terminal/command.h"

namespace emplace::launcher {
namespace {

enum class Pace : std::uint8_t { kWalk, kRun };
constexpr auto enum_words(Pace) {
  return EnumWords{"pace", std::array{EnumWord{Pace::kWalk, "walk"}, EnumWord{Pace::kRun, "run"}}};
}

struct Walk {
  std::string name = "auto", file;
  std::uint32_t steps = 3;
  std::int64_t offset = -1;
  Duration budget{-1};
  Pace pace = Pace::kWalk;
  bool fast = false;

  void list(Settings& s) {
    s.add("name", name, "Name.");
    s.add("file", file, at_least(1), "File.");
    s.add("steps", steps, between(1, 64), "Steps.");
    s.add("offset", offset, between(-1, 100), "Offset.");
    s.add("budget", budget, "Budget.");
    s.add("pace", pace, "Pace.");
    s.add("fast", fast, "Fast.");
  }
};

/// Reads its options into a struct of the test.
class WalkCommand final : public Command {
 public:
  explicit WalkCommand(Walk& out) : Command{"walk", "Walk"}, out_{out} {}
  void declare(Options& options) override { settings_.declare(options, "name", "fast", "n"); }
  Result<ExitStatus> run(Console&) override {
    EMPLACE_TRY(settings_.apply());
    out_ = walk_;
    return ExitStatus::kDone;
  }

 private:
  Walk& out_;
  Walk walk_;
  SettingOptions settings_{walk_};
};

/// Exit status of the command line, its standard error in `errors`.
int run(std::vector<const char*> words, Walk& out, std::string& errors) {
  words.insert(words.begin(), {"emplace", "walk"});
  Commands commands;
  commands.push_back(std::make_unique<WalkCommand>(out));
  ::testing::internal::CaptureStderr();
  const int status = run_command_line(static_cast<int>(words.size()), words.data(), commands);
  errors = ::testing::internal::GetCapturedStderr();
  return status;
}

TEST(SettingOptions, KeepsDefaultsWithoutOptions) {
  Walk walk{.name = "", .steps = 9};
  std::string errors;
  ASSERT_EQ(run({}, walk, errors), 0) << errors;
  EXPECT_EQ(walk.name, "auto");
  EXPECT_EQ(walk.steps, 3u);
  EXPECT_EQ(walk.offset, -1);
  EXPECT_EQ(walk.budget.seconds, -1);
  EXPECT_EQ(walk.pace, Pace::kWalk);
  EXPECT_FALSE(walk.fast);
}

TEST(SettingOptions, ShowsDefaultsInTheHelp) {
  Walk walk;
  std::string errors;
  ::testing::internal::CaptureStdout();
  ASSERT_EQ(run({"--help"}, walk, errors), 0);
  const std::string help = ::testing::internal::GetCapturedStdout();
  for (const char* line : {"-n,--name TEXT=auto ", "--file TEXT ", "--steps TEXT=3 ", "--offset TEXT ",
                           "--budget TEXT ", "--pace TEXT=walk ", "--fast "})
    EXPECT_NE(help.find(line), std::string::npos) << line << help;
}

TEST(SettingOptions, ReadsEachKindOfSetting) {
  Walk walk;
  std::string errors;
  ASSERT_EQ(run({"-n", "far", "--file", "x", "--steps", "64", "--offset", "0", "--budget", "2min", "--pace",
                 "run", "--fast"},
                walk, errors),
            0)
      << errors;
  EXPECT_EQ(walk.name, "far");
  EXPECT_EQ(walk.file, "x");
  EXPECT_EQ(walk.steps, 64u);
  EXPECT_EQ(walk.offset, 0);
  EXPECT_EQ(walk.budget.seconds, 120);
  EXPECT_EQ(walk.pace, Pace::kRun);
  EXPECT_TRUE(walk.fast);
}

TEST(SettingOptions, RefusesBadValuesInOneLine) {
  Walk walk;
  std::string errors;
  const std::vector<std::pair<std::vector<const char*>, std::string>> cases{
      {{"--steps", "65"}, "--steps '65': is out of range; use a whole number from 1 to 64"},
      {{"--steps", ""}, "--steps '': is out of range; use a whole number from 1 to 64"},
      {{"--offset=-2"}, "--offset '-2': is out of range; use a whole number from 0 to 100"},
      {{"--budget", "2e9s"}, "--budget '2e9s': is too long; use at most 1e8s"},
      {{"--budget", "soon"}, "--budget: "},
      {{"--pace", "crawl"}, "--pace 'crawl': is unknown; use walk or run"},
      {{"--file", ""}, "is empty; leave the option out for the default"}};
  for (const auto& [words, what] : cases) {
    EXPECT_EQ(run(words, walk, errors), 2) << words.front();
    EXPECT_NE(errors.find(what), std::string::npos) << errors;
    EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1);
  }
}

}  // namespace
}  // namespace emplace::launcher

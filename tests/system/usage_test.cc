// Goal: the command line keeps its contract: help everywhere, one-line errors with a cure, exit status, clean
// ends. Method: the built program as a process; only standard output, standard error and exit status are
// checked.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/system/process.h"

namespace emplace {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kDevices;
using testing::kGraph;
using ::testing::Not;
using testing::Process;
using testing::run;
using testing::shipped;
using ::testing::StartsWith;

void expect_one_line_error(const Finished& done, int status, const std::string& text) {
  EXPECT_EQ(done.status, status) << done.err;
  EXPECT_FALSE(done.killed);
  EXPECT_THAT(done.err, StartsWith("error: "));
  EXPECT_EQ(done.err.find('\n'), done.err.size() - 1) << done.err;
  EXPECT_THAT(done.err, HasSubstr(text));
}

TEST(Usage, VersionNamesBuildTypeAndOptionalParts) {
  const Finished done = run({"--version"});
  EXPECT_EQ(done.status, 0);
  EXPECT_THAT(done.out, StartsWith("emplace 0."));
  EXPECT_THAT(done.out, HasSubstr("build type: "));
  EXPECT_THAT(done.out, HasSubstr("optional parts: "));
  EXPECT_THAT(done.out, HasSubstr("cuda"));
}

TEST(Usage, EveryCommandHasHelpWithTheCommonOptions) {
  const Finished all = run({"--help"});
  EXPECT_EQ(all.status, 0);
  EXPECT_THAT(all.err, IsEmpty());
  for (const char* command : {"place", "compare", "evaluate", "explain", "bound", "inspect", "import",
                              "export", "generate", "keygen", "doctor", "version"}) {
    EXPECT_THAT(all.out, HasSubstr(command));
    const Finished help = run({command, "--help"});
    EXPECT_EQ(help.status, 0) << command;
    for (const char* option : {"--json", "--quiet", "--log-level", "--seed"})
      EXPECT_THAT(help.out, HasSubstr(option)) << command;
  }
}

TEST(Usage, WrongWordsAreRefusedWithTheNearestRightOne) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{}, "emplace: no command given; 'emplace --help' lists the commands"},
      {{"comapre"}, "unknown command 'comapre'; did you mean 'compare'?"},
      {{"--json", "compare", kGraph, "-d", kDevices},
       "'--json' comes before the command; put it after the command"},
      {{"compare", kGraph, "--devcies", kDevices}, "unknown option '--devcies'; did you mean '--devices'?"},
      {{"compare", kGraph, "-d", "quikstart"}, "device 'quikstart' is unknown"},
      {{"compare", kGraph, "-d", ""}, "--devices: is empty"},
      {{"compare", kGraph, "-d"}, "emplace compare: --devices"},
      {{"inspect"}, "emplace inspect: GRAPH is required"},
      {{"inspect", kGraph, "more"}, "unexpected argument 'more'"},
      {{"compare", kGraph, "-d", kDevices, "--methods", "contigous"},
       "method 'contigous': is unknown; did you mean 'contiguous'?"},
      {{"place", kGraph, "-d", kDevices, "--method", "expret"}, "did you mean 'expert'?"},
      {{"version", "--seed", "-1"}, "'-1' is not a whole number"},
      {{"version", "--seed", "18446744073709551616"}, "is not a whole number below 2^64"},
      {{"version", "--log-level", "debgu"}, "did you mean 'debug'?"},
      {{"compare", kGraph, "-d", kDevices, "--reserve", "10"}, "write it like 10% or 2GiB"},
      {{"compare", kGraph, "-d", kDevices, "--dispatch", "lifo"},
       "--dispatch: unknown dispatch 'lifo'; expected one of: program, fifo (did you mean 'fifo'?)"},
      {{"evaluate", kGraph, kGraph, "-d", kDevices, "--executor", "gpu"},
       "unknown executor 'gpu'; expected sim, placeto, cpu, cuda, fake or torch"},
      {{"evaluate", kGraph, kGraph, "-d", kDevices, "--executor", "fake", "--samples", "0"},
       "--samples: are out of range"},
      {{"evaluate", kGraph, kGraph, "-d", kDevices, "--executor", "fake", "--statistic", "mode"},
       "--statistic: unknown statistic 'mode'; expected one of: median, mean"},
      {{"evaluate", kGraph, kGraph, "-d", kDevices, "--executor", "fake", "--chaos", "crash"},
       "crash-every=N"},
      {{"evaluate", kGraph, kGraph, "-d", kDevices, "--chaos", "crash-every=1"}, "use --executor fake"},
      {{"evaluate", kGraph, kGraph, "-d", kDevices, "--verify"}, "use --executor cpu"},
  };
  for (const auto& [arguments, text] : cases) {
    const Finished done = run(arguments);
    expect_one_line_error(done, 2, text);
    EXPECT_THAT(done.out, IsEmpty()) << text;
  }
}

TEST(Usage, MissingFileSuggestsTheNearestNameInItsFolder) {
  expect_one_line_error(run({"inspect", kGraph, "-d", shipped("configs/devices/quikstart.toml")}), 2,
                        "configs/devices/quickstart.toml'?");
  expect_one_line_error(run({"inspect", shipped("tests/fixtures/graphs/cifar10-cnn-bs128.json")}), 2,
                        "cifar10_cnn-bs128.json'?");
  expect_one_line_error(run({"inspect", "/nowhere/at/all.json"}), 2, "no such file");
}

TEST(Usage, FullDiskUnderStandardOutputIsAnError) {
  const Finished done = run({"inspect", kGraph, "--json"}, {.out_file = "/dev/full"});
  expect_one_line_error(done, 2, "standard output: cannot be written");
}

TEST(Usage, QuietAndLogLevelHideNotes) {
  const std::vector<std::string> place{"place", kGraph, "-d", kDevices, "--method", "single-gpu"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), place.begin(), place.end());
    return run(more).err;
  };
  EXPECT_THAT(with({}), HasSubstr("not written to a file"));
  EXPECT_THAT(with({"--quiet"}), IsEmpty());
  EXPECT_THAT(with({"--log-level", "warning"}), IsEmpty());
  EXPECT_THAT(with({"--log-level", "debug"}), HasSubstr("debug: single-gpu"));
}

TEST(Usage, ColoursGoToTerminalsOnlyAndNoColorTurnsThemOff) {
  const auto doctor = [](std::vector<std::string> environment, bool terminal) {
    return run({"doctor"}, {.environment = std::move(environment), .out_is_terminal = terminal}).out;
  };
  EXPECT_THAT(doctor({"TERM=xterm", "NO_COLOR="}, true), HasSubstr("\x1b[32m"));
  EXPECT_THAT(doctor({"TERM=xterm", "NO_COLOR=1"}, true), Not(HasSubstr("\x1b")));
  EXPECT_THAT(doctor({"TERM=dumb", "NO_COLOR="}, true), Not(HasSubstr("\x1b")));
  EXPECT_THAT(doctor({"TERM=xterm", "NO_COLOR="}, false), Not(HasSubstr("\x1b")));
}

TEST(Usage, SignalEndsALongComparisonWithItsResultsSoFar) {
  const std::string graph = shipped("configs/graphs/nmt-2layer-bs64.json.gz");
  std::string methods = "single-cpu";
  for (int i = 0; i < 2000; ++i) methods += ",random";  // Minutes of work unless it is stopped.
  for (const auto& [signal, status] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    Process process{
        {"compare", graph, "-d", kDevices, "--methods", methods, "--json", "--log-level", "debug"}};
    ASSERT_TRUE(process.wait_for_error_text("debug: random"));
    process.send(signal);
    const Finished done = process.finish();
    EXPECT_EQ(done.status, status);
    EXPECT_FALSE(done.killed);
    EXPECT_THAT(done.out, HasSubstr("\"single-cpu\""));
    EXPECT_EQ(done.out.substr(done.out.size() - 2), "}\n");
    EXPECT_THAT(done.err, Not(HasSubstr("error")));
  }
}

TEST(Usage, SignalEndsAComparisonWhileAMethodLearns) {
  for (const std::string wait : {"debug: placeto", "updates"}) {
    Process process{{"compare", kGraph, "-d", kDevices, "--methods", "expert,placeto,random", "--budget",
                     "600s", "--json", "--log-level", "debug"}};
    ASSERT_TRUE(process.wait_for_error_text(wait)) << wait;
    process.send(SIGINT);
    const Finished done = process.finish();
    EXPECT_EQ(done.status, 130) << wait << done.err;
    EXPECT_FALSE(done.killed) << wait;
    EXPECT_THAT(done.out, HasSubstr("\"expert\""));
    EXPECT_THAT(done.out, Not(HasSubstr("\"random\""))) << "methods after it are not run";
  }
}

}  // namespace
}  // namespace emplace

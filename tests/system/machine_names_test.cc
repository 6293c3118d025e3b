// Goal: --devices and input.devices take a device file, a text of catalogue names, or here; a run keeps the
// machine that it started with. Method: real processes; the placement file, run.db's exports and standard
// error are the witnesses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/system/json_of.h"
#include "tests/system/process.h"

namespace emplace::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kTwoGpus = "k40 x 2, haswell18";

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in{file};
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(MachineNames, EveryCommandTakesAMachineText) {
  const TemporaryFolder folder;
  const std::string placement = folder.at("p.json");
  const Finished placed =
      run({"place", kGraph, "-d", kTwoGpus, "--method", "expert", "-o", placement, "--json"});
  ASSERT_EQ(placed.status, 0) << placed.err;
  EXPECT_THAT(placed.err, Not(HasSubstr("this machine")));
  EXPECT_EQ(json::parse(content_of(placement))["devices"], json::parse(R"(["gpu:0", "gpu:1", "cpu:0"])"));
  const Finished evaluated = run({"evaluate", kGraph, placement, "--devices", kTwoGpus, "--json"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  EXPECT_EQ(json::parse(evaluated.out)["step_time_s"], json::parse(placed.out)["measured"]["step_time_s"]);
  const Finished compared = run({"compare", kGraph, "-d", kTwoGpus, "--methods", "single-gpu,expert"});
  ASSERT_EQ(compared.status, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr(" on k40 x 2, haswell18\n"));
  EXPECT_EQ(run({"bound", kGraph, "-d", kTwoGpus}).status, 0);
  EXPECT_EQ(run({"inspect", kGraph, "-d", kTwoGpus}).status, 0);
  EXPECT_EQ(run({"explain", placement, "--graph", kGraph, "-d", kTwoGpus}).status, 0);
  const Finished reserved = run({"bound", kGraph, "-d", kTwoGpus, "--reserve", "12GiB"});
  EXPECT_EQ(reserved.status, 2);
  EXPECT_THAT(reserved.err, HasSubstr("memory must be above zero"));
  EXPECT_EQ(run({"bound", kGraph, "-d", kTwoGpus, "--reserve", "1GiB"}).status, 0);
}

TEST(MachineNames, WrongTextsAreRefusedInOneLine) {
  for (const auto& [text, with] :
       {std::pair{"h10 x 2", "letter 1: device 'h10' is unknown; did you mean 'h100'?"},
        {"h100 x 0", "letter 8: count 0 is out of range; use 1 to 256"},
        {"2 x (h100", "letter 5: '(' is not closed"},
        {" ", "is empty"},
        {"h100 by nvlink9", "letter 9: link 'nvlink9' is unknown"}}) {
    const Finished done = run({"bound", kGraph, "-d", text});
    EXPECT_EQ(done.status, 2) << text;
    EXPECT_THAT(done.err, HasSubstr(with));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  }
}

TEST(MachineNames, DefaultIsThisMachineAndIsReported) {
  const TemporaryFolder folder;
  const std::string placement = folder.at("p.json");
  const Finished placed = run({"place", kGraph, "--method", "single-cpu", "-o", placement, "--json"});
  ASSERT_EQ(placed.status, 0) << placed.err;
  EXPECT_THAT(placed.err, HasSubstr("no --devices: this machine, cpu:0 ("));
  EXPECT_EQ(json::parse(content_of(placement))["devices"][0], "cpu:0");
  const Finished evaluated = run({"evaluate", kGraph, placement, "-d", "here"});
  EXPECT_EQ(evaluated.status, 0) << evaluated.err;
  EXPECT_THAT(evaluated.err, HasSubstr("this machine, cpu:0 ("));
  EXPECT_THAT(evaluated.err, Not(HasSubstr("no --devices")));
  EXPECT_THAT(run({"compare", kGraph, "--methods", "single-cpu", "--quiet"}).err,
              Not(HasSubstr("this machine")));
}

TEST(MachineNames, RunKeepsItsMachineText) {
  const TemporaryFolder folder;
  const std::string directory = folder.at("run");
  const auto start = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"--set", "run.starts=[\"scratch\"]", "--set", std::string{"input.devices="} + kTwoGpus});
    return run(small_run(directory, more));
  };
  const Finished first = start({"--episodes", "5", "--set", "run.deterministic=true", "--json"});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(content_of(directory + "/config.toml"), HasSubstr("devices = \"k40 x 2, haswell18\"\n"));
  // A file that has the text as its name by chance does not matter.
  const std::string here = folder.at("elsewhere");
  std::filesystem::create_directories(here);
  for (const std::string& at : {here, directory}) std::ofstream{at + "/" + kTwoGpus} << "nonsense";
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(here);
  const Finished resumed = run({"run", "--run-dir", directory, "--resume", "--episodes", "8", "--json"});
  const Finished replayed = run({"replay", directory, "--verify", "--json"});
  const Finished branched =
      run({"run", "--branch", directory, "--run-dir", folder.at("branch"), "--episodes", "2"});
  std::filesystem::current_path(before);
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(replayed.status, 0) << replayed.err;
  EXPECT_EQ(branched.status, 0) << branched.err;
  const Finished exported = run({"export", directory, "--to", "csv", "-o", folder.at("m.csv")});
  EXPECT_EQ(exported.status, 0) << exported.err;
  EXPECT_THAT(content_of(folder.at("m.csv")), HasSubstr("gpu:1"));
}

TEST(MachineNames, RunKeepsTheCostVersionOfItsText) {
  const TemporaryFolder folder;
  for (const std::string costs : {"1", "2"}) {
    const std::string directory = folder.at("run-" + costs), branch = folder.at("branch-" + costs);
    std::vector<std::string> more{
        "--episodes", "4", "--set", "run.starts=[\"scratch\"]", "--set", "input.devices=h100, v100"};
    if (costs == "1") more.insert(more.end(), {"--cost-version", costs});
    const Finished first = run(small_run(directory, more));
    ASSERT_EQ(first.status, 0) << first.err;
    const Finished resumed = run({"run", "--run-dir", directory, "--resume", "--episodes", "6"});
    EXPECT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_EQ(run({"replay", directory, "--verify"}).status, 0);
    const Finished branched = run({"run", "--branch", directory, "--run-dir", branch, "--episodes", "2"});
    EXPECT_EQ(branched.status, 0) << branched.err;
    for (const std::string& made : {directory, branch})
      EXPECT_THAT(content_of(made + "/config.toml"), HasSubstr("\ncosts = " + costs + "\n")) << made;
    const std::string other = costs == "1" ? "2" : "1";
    const Finished changed = run({"run", "--run-dir", directory, "--resume", "--cost-version", other});
    EXPECT_EQ(changed.status, 2);
    EXPECT_THAT(changed.err, HasSubstr("was recorded with other devices than h100, v100 has now"));
  }
}

TEST(MachineNames, UnknownCostVersionsAreRefusedInOneLine) {
  const TemporaryFolder folder;
  std::ofstream{folder.at("file.toml")} << "costs = 7\n[[device]]\nname = \"h100\"\n";
  for (const auto& [words, with] :
       {std::pair{std::vector<std::string>{"bound", kGraph, "-d", "h100", "--cost-version", "3"},
                  "--cost-version: unknown cost version '3'; expected one of: 1, 2"},
        {{"bound", kGraph, "-d", folder.at("file.toml")}, "file.toml:1: unknown cost version '7'"},
        {small_run(folder.at("run"), {"--cost-version", "x"}), "--cost-version: unknown cost version 'x'"},
        {small_run(folder.at("run"), {"--set", "input.costs=9"}), "input.costs = 9: expected 1 to 2"}}) {
    const Finished done = run(words);
    EXPECT_EQ(done.status, 2) << done.err;
    EXPECT_THAT(done.err, HasSubstr(with));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  }
}

TEST(MachineNames, RunForThisMachineKeepsADeviceFile) {
  const TemporaryFolder folder;
  const std::string directory = folder.at("run"), moved = folder.at("moved");
  const Finished first = run(small_run(directory, {"--set", "run.starts=[\"scratch\"]", "--set",
                                                   "input.devices=here", "--episodes", "3", "--json"}));
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(content_of(directory + "/devices.toml"), HasSubstr("name = \"cpu:0\""));
  EXPECT_THAT(content_of(directory + "/config.toml"), HasSubstr("/devices.toml\""));
  std::filesystem::rename(directory, moved);
  const Finished resumed = run({"run", "--run-dir", moved, "--resume", "--episodes", "5"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  const Finished unnamed = run(small_run(folder.at("unnamed"), {"--set", "run.starts=[\"scratch\"]", "--set",
                                                                "input.devices=", "--episodes", "2"}));
  EXPECT_EQ(unnamed.status, 0) << unnamed.err;
  EXPECT_TRUE(std::filesystem::exists(folder.at("unnamed") + "/devices.toml"));
}

TEST(MachineNames, LearnedMethodsGetTheSameMachine) {
  const Finished text =
      run({"place", kGraph, "-d", kTwoGpus, "--method", "hierarchical", "--budget", "1s", "--json"});
  EXPECT_EQ(text.status, 0) << text.err;
  const Finished here = run({"place", kGraph, "--method", "hierarchical", "--budget", "1s"});
  EXPECT_EQ(here.status, 0) << here.err;
  EXPECT_THAT(here.err, HasSubstr("no --devices: this machine"));
}

TEST(MachineNames, ReserveMayBeASizeInAConfig) {
  const TemporaryFolder folder;
  const std::string directory = folder.at("run");
  const Finished done = run(
      small_run(directory, {"--set", "run.starts=[\"scratch\"]", "--reserve", "512MiB", "--episodes", "3"}));
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(content_of(directory + "/config.toml"), HasSubstr("reserve = \"512MiB\"\n"));
  EXPECT_EQ(run({"replay", directory, "--verify"}).status, 0);
  EXPECT_EQ(run({"run", "--run-dir", directory, "--resume", "--episodes", "5"}).status, 0);
}

}  // namespace
}  // namespace emplace::testing

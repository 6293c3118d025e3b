// Goal: --rules hold in every placement of place, compare, evaluate and run, and are refused in one line
// where they cannot hold.  Method: the built program as a process; placements are read as a script would.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/system/process.h"

namespace emplace {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using testing::kDevices;
using testing::kGraph;
using testing::run;
using testing::shipped;
using testing::TemporaryFolder;

TEST(Rules, HoldInPlacementsThatAreFound) {
  const TemporaryFolder folder;
  const std::string rules = folder.file("rules.toml",
                                        "[[rule]]\nmatch = { name = '^convolution_1$' }\npin = \"cpu:0\"\n"
                                        "[[rule]]\nmatch = { type = '.' }\nallow = [\"gpu:*\"]\n");
  const std::string placement = folder.at("p.json");
  for (const char* method : {"round-robin", "expert", "auto"}) {
    const Finished done = run(
        {"place", kGraph, "-d", kDevices, "--rules", rules, "-m", method, "--budget", "1s", "-o", placement});
    ASSERT_EQ(done.status, 0) << method << ": " << done.err;
    const ordered_json found = ordered_json::parse(std::ifstream{placement});
    for (const auto& [op, device] : found["ops"].items())
      EXPECT_EQ(device == "cpu:0", op == "convolution_1") << method << ": " << op << " on " << device;
  }
  EXPECT_EQ(run({"evaluate", kGraph, placement, "-d", kDevices, "--rules", rules}).status, 0);
  const std::string other =
      folder.file("other.toml", "[[rule]]\nmatch = { type = '.' }\nallow = [\"gpu:*\"]\n");
  const Finished broken = run({"evaluate", kGraph, placement, "-d", kDevices, "--rules", other});
  EXPECT_EQ(broken.status, 2);
  EXPECT_THAT(broken.err, AllOf(HasSubstr("op 'convolution_1'"), HasSubstr("may not run on cpu:0")));
  const Finished table =
      run({"compare", kGraph, "-d", kDevices, "--rules", rules, "-m", "round-robin,expert", "--json"});
  EXPECT_EQ(table.status, 0) << table.err;
}

TEST(Rules, HoldInARun) {
  const TemporaryFolder folder;
  const std::string rules =
      folder.file("rules.toml", "[[rule]]\nmatch = { name = '^convolution_1$' }\npin = \"cpu:0\"\n");
  const std::string config =
      folder.file("run.toml", "[run]\nepisodes = 6\n[input]\ngraph = \"" + kGraph + "\"\ndevices = \"" +
                                  kDevices + "\"\n[policy]\nmethod = \"random\"\n");
  const std::string directory = folder.at("run");
  const Finished done = run({"run", config, "--rules", rules, "--reserve", "10%", "--run-dir", directory});
  ASSERT_EQ(done.status, 0) << done.err;
  std::ifstream in{directory + "/best.placement.json"};
  EXPECT_EQ(ordered_json::parse(in)["ops"]["convolution_1"], "cpu:0");
  std::ifstream kept{directory + "/config.toml"};
  const std::string text{std::istreambuf_iterator<char>{kept}, {}};
  EXPECT_THAT(text, AllOf(HasSubstr(rules), HasSubstr("reserve = 0.1")));
}

TEST(Rules, AreRefusedInOneLine) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> cases{
      {"[[rule]]\nmatch = { name = '^convolutoin_1$' }\npin = \"cpu:0\"\n", "the nearest is 'convolution_1'"},
      {"[[rule]]\nmatch = { name = 'conv' }\npin = \"cpu:0\"\n[[rule]]\nmatch = { name = 'conv' }\npin = "
       "\"gpu:0\"\n",
       "rules.toml:4 (pin = \"gpu:0\"): contradicts rules.toml:1 (pin = \"cpu:0\") on op '"},
      {"[[rule]]\nmatch = { name = 'conv' }\npni = \"cpu:0\"\n", "rules.toml:"},
      {"[[rule]]\nmatch = { name = 'conv' }\npin = \"gpu:9\"\n", "device 'gpu:9'"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string rules = folder.file("rules.toml", text);
    for (const char* command : {"place", "compare"}) {
      const Finished done = run({command, kGraph, "-d", kDevices, "--rules", rules});
      EXPECT_EQ(done.status, 2) << command;
      EXPECT_THAT(done.err, AllOf(HasSubstr("error: "), HasSubstr(expected)));
      EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    }
  }
}

TEST(Memory, ZeroMemoryIsReportedInBytes) {
  const TemporaryFolder folder;
  const std::string devices =
      folder.file("small.toml",
                  "[[device]]\nname = \"gpu:0\"\nprofile = \"k40\"\nmemory = \"1MB\"\n"
                  "[[device]]\nname = \"gpu:1\"\nprofile = \"k40\"\nmemory = \"1MB\"\n"
                  "[[link]]\nbetween = [\"*\", \"*\"]\nprofile = \"pcie3_x16\"\n");
  for (const char* command : {"place", "compare"}) {
    const Finished done = run({command, kGraph, "-d", devices});
    EXPECT_EQ(done.status, 3) << command;
    EXPECT_THAT(done.err, AllOf(HasSubstr("no placement fits"), HasSubstr("short of"), HasSubstr(" B ("),
                                HasSubstr("increase the memory of smaller devices to at least")));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  }
}

}  // namespace
}  // namespace emplace

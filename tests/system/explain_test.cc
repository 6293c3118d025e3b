// Goal: `emplace explain` shows where ops are, what decides the step and what a move would change, and names
// errors of its input. Method: the built program as a process; a move that it prices is made in the placement
// file and evaluated.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/system/process.h"

namespace emplace {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Finished;
using ::testing::HasSubstr;
using testing::kDevices;
using testing::kGraph;
using ::testing::Not;
using testing::run;
using testing::shipped;
using testing::TemporaryFolder;

class Explain : public ::testing::Test {
 protected:
  Explain() {
    const Finished placed =
        run({"place", kGraph, "-d", kDevices, "--method", "round-robin", "-o", placement_});
    EXPECT_EQ(placed.status, 0) << placed.err;
  }
  Finished explain(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"explain", placement_, "--graph", kGraph, "--devices", kDevices};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  ordered_json json_of(std::vector<std::string> more) const {
    more.push_back("--json");
    const Finished done = explain(more);
    EXPECT_EQ(done.status, 0) << done.err;
    return ordered_json::parse(done.out, nullptr, /*allow_exceptions=*/false);
  }
  std::string rules(const std::string& text) const {
    const std::string path = (folder_.path() / "rules.toml").string();
    std::ofstream{path} << text;
    return path;
  }

  const TemporaryFolder folder_;
  const std::string placement_ = (folder_.path() / "p.json").string();
};

TEST_F(Explain, ShowsMemoryOverTime) {
  const ordered_json json = json_of({});
  ASSERT_EQ(json["memory"].size(), json["peak_memory_bytes"].size());
  for (std::size_t d = 0; d < json["memory"].size(); ++d) {
    const ordered_json& device = json["memory"][d];
    const auto bytes = device["bytes"].get<std::vector<std::int64_t>>();
    EXPECT_EQ(bytes.size(), 48u);
    EXPECT_EQ(*std::max_element(bytes.begin(), bytes.end()), json["peak_memory_bytes"][d].get<std::int64_t>())
        << device["device"];
    EXPECT_LE(device["peak_at_s"].get<double>(), json["step_time_s"].get<double>());
  }
  EXPECT_FALSE(json.contains("without_plan"));
  EXPECT_THAT(explain({}).out, AllOf(HasSubstr("memory over time"), HasSubstr("▁"), HasSubstr("peak ")));
}

TEST_F(Explain, PricesAMoveAsEvaluateDoes) {
  const ordered_json explained = json_of({"--op", "^convolution_1$", "--top", "1"});
  ASSERT_EQ(explained["items"].size(), 1u);
  const ordered_json& item = explained["items"][0];
  EXPECT_EQ(item["op"], "convolution_1");
  EXPECT_EQ(item["type"], "aten::convolution");
  ASSERT_EQ(item["elsewhere"].size(), 3u);
  ordered_json placement = ordered_json::parse(std::ifstream{placement_});
  EXPECT_EQ(item["device"], placement["ops"]["convolution_1"]);
  ASSERT_EQ(item["companions"], 0);
  std::size_t priced = 0;
  for (const auto& there : item["elsewhere"]) {
    ordered_json moved = placement;
    moved["ops"]["convolution_1"] = there["device"];
    const std::string path = (folder_.path() / "moved.json").string();
    std::ofstream{path} << moved.dump();
    const Finished evaluated = run({"evaluate", kGraph, path, "-d", kDevices, "--json"});
    ASSERT_EQ(evaluated.status, 0) << evaluated.err;
    EXPECT_DOUBLE_EQ(ordered_json::parse(evaluated.out)["step_time_s"], there["step_time_s"].get<double>());
    EXPECT_EQ(there["here"].get<bool>(), there["device"] == item["device"]);
    if (!there["here"].get<bool>()) ++priced;
  }
  EXPECT_EQ(priced, 2u);
}

TEST_F(Explain, ScopesCoverTheGraph) {
  const ordered_json explained = json_of({"--top", "1000"});
  EXPECT_EQ(explained["not_shown"], 0);
  std::size_t ops = 0;
  double critical_s = 0, before_s = 1e9;
  for (const auto& item : explained["items"]) {
    ops += item["ops"].get<std::size_t>();
    EXPECT_LE(item["critical_s"].get<double>(), before_s) << "what matters most comes first";
    before_s = item["critical_s"];
    critical_s += before_s;
    EXPECT_EQ(item["critical"].get<bool>(), before_s > 0);
  }
  EXPECT_EQ(ops, ordered_json::parse(std::ifstream{kGraph})["ops"].size());
  EXPECT_NEAR(critical_s, explained["step_time_s"].get<double>(), 1e-9);
  const Finished table = explain({"--top", "3"});
  EXPECT_EQ(table.status, 0);
  EXPECT_THAT(table.out, AllOf(HasSubstr("on gpu:0"), HasSubstr("here"), HasSubstr("more (--top)"),
                               Not(HasSubstr("\x1b"))));
}

TEST_F(Explain, NamesTheRuleThatPinsAnOp) {
  const ordered_json placement = ordered_json::parse(std::ifstream{placement_});
  const std::string device = placement["ops"]["convolution_1"];
  const std::string file =
      rules("[[rule]]\nmatch = { name = '^convolution_1$' }\npin = \"" + device + "\"\n");
  const ordered_json explained = json_of({"--op", "^convolution_1$", "--rules", file});
  EXPECT_THAT(explained["items"][0]["rules"].get<std::vector<std::string>>(),
              ElementsAre("rules.toml:1 (pin = \"" + device + "\")"));
  EXPECT_EQ(explained["rules"][0]["matched"], 1);
  for (const auto& there : explained["items"][0]["elsewhere"]) {
    EXPECT_EQ(there["allowed"].get<bool>(), there["device"] == device);
    EXPECT_EQ(there["step_time_s"].is_null(), there["device"] != device);
  }
  EXPECT_THAT(explain({"--op", "^convolution_1$", "--rules", file}).out,
              AllOf(HasSubstr("allowed on no other device: rules.toml:1"), HasSubstr("matches 1 op")));
}

TEST_F(Explain, RefusesInOneLine) {
  const auto refused = [&](std::vector<std::string> more, const std::string& text) {
    const Finished done = explain(more);
    EXPECT_EQ(done.status, 2) << done.err;
    EXPECT_THAT(done.err, AllOf(HasSubstr("error: "), HasSubstr(text)));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  };
  refused({"--op", "convolutoin"}, "--op 'convolutoin': matches no op; the nearest is 'convolution_1'");
  refused({"--op", "a(b"}, "is not a regular expression");
  refused({"--rules", rules("[[rule]]\nmatch = { type = 'aten::convolutoin' }\npin = \"gpu:0\"\n")},
          "the nearest is 'aten::convolution'");
  refused({"--rules", rules("[[rule]]\nmatch = { name = '.' }\npin = \"cpu:0\"\n")}, "may not run on");
  refused({"--dispatch", "lifo"}, "expected one of: program, fifo");
}

}  // namespace
}  // namespace emplace

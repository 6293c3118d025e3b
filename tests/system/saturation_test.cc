// Goal: a policy that saturates is one warning with the cure, and stands in the list of runs and in the
// report afterwards; a policy that learns has no warning. Method: real deterministic runs of Placeto on a
// small real graph, with sums, a huge learning rate and no entropy bonus, and with means, a small rate and a
// bonus.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text/words.h"
#include "tests/system/process.h"

namespace emplace::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

const Words kSaturating{"policy.placeto.means=false", "policy.learning_rate=0.1",
                        "policy.learning_rate_end=0.1", "policy.entropy=0", "policy.entropy_end=0"};
const Words kLearning{"policy.placeto.means=true", "policy.learning_rate=0.001", "policy.entropy=0.003",
                      "policy.entropy_end=0.003"};
const std::string kWarning = "the policy is saturated: the gradient was below 1e-10 in updates ";
const std::string kCure =
    "; set policy.placeto.means = true, set policy.placeto.logit_bound = 5, lower policy.learning_rate or "
    "raise "
    "policy.entropy_end\n";

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string text_in(const std::string& path) {
  const auto bytes = read_file(path);
  EXPECT_TRUE(bytes.ok()) << path;
  return bytes ? std::string{emplace::text_of(*bytes)} : std::string{};
}

/// Runs 200 updates.
Finished train(const TemporaryFolder& folder, const std::string& name, const Words& settings,
               Words more = {}) {
  const std::string config = folder.file(
      name + ".toml", "[input]\ngraph = \"" + kGraph + "\"\ndevices = \"" + kDevices +
                          "\"\n[run]\ndeterministic = true\nstarts = [\"scratch\"]\n[policy]\nmethod = "
                          "\"placeto\"\npreset = \"paper\"\ngroups = 8\n[policy.placeto]\nhidden = "
                          "8\n");
  Words words{"run", config, "--run-dir", folder.at(name), "--episodes", "800", "--json"};
  for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
  words.insert(words.end(), more.begin(), more.end());
  return run(words);
}

json listed(const std::string& directory) {
  const Finished done = run({"runs", directory, "--json"});
  EXPECT_EQ(done.status, 0) << done.err;
  return json::parse(done.out)["runs"][0];
}

TEST(Saturation, IsOneWarningAndIsListedLater) {
  const TemporaryFolder folder;
  const Finished done = train(folder, "dead", kSaturating);
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(occurrences(done.err, "warning: start scratch: " + kWarning), 1u) << done.err;
  EXPECT_EQ(occurrences(done.err, "warning"), 1u) << done.err;
  EXPECT_EQ(occurrences(done.err, "so it learns nothing more" + kCure), 1u) << done.err;
  EXPECT_TRUE(json::parse(done.out)["starts"][0]["saturated"].get<bool>()) << done.out;
  EXPECT_EQ(occurrences(text_in(folder.at("dead/log/head")), "recorder/0: " + kWarning), 1u);

  const json run_ = listed(folder.at("dead"));
  EXPECT_TRUE(run_["saturated"].get<bool>());
  const json& policy = run_["policies"][0];
  EXPECT_EQ(policy["start"], "scratch");
  EXPECT_EQ(policy["updates"], 200);
  EXPECT_TRUE(policy["saturated"].get<bool>());
  ASSERT_EQ(policy["entropy"].size(), 10u) << policy;
  EXPECT_GT(policy["entropy"][0], 0.05) << "of ln 3 for three devices";
  EXPECT_EQ(policy["entropy"][9], 0);
  EXPECT_THAT(policy["warning"].get<std::string>(), HasSubstr(" to 200, so it learns nothing more; "))
      << "the record knows how long";

  const Finished text = run({"runs", folder.at("dead")});
  EXPECT_THAT(text.out, HasSubstr("ENTROPY"));
  EXPECT_THAT(text.out, HasSubstr(" 0 0 0\n"));
  EXPECT_EQ(occurrences(text.out, "dead, start scratch: " + kWarning), 1u) << text.out;
  EXPECT_EQ(
      occurrences(text_in(folder.at("dead/report.html")), "Warning: placeto, from scratch: " + kWarning), 1u);
}

TEST(Saturation, IsAWarningAlsoInQuietAndAfterAResumption) {
  const TemporaryFolder folder;
  const Finished done = train(folder, "dead", kSaturating, {"--quiet"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(occurrences(done.err, "\n"), 1u) << done.err;
  EXPECT_THAT(done.err, HasSubstr(kWarning));
  const Finished more =
      run({"run", "--resume", "--run-dir", folder.at("dead"), "--episodes", "820", "--quiet"});
  ASSERT_EQ(more.status, 0) << more.err;
  EXPECT_EQ(occurrences(more.err, "\n"), 1u) << more.err;
  EXPECT_THAT(more.err, HasSubstr(kWarning)) << "its zeros are counted from the record";
  EXPECT_EQ(listed(folder.at("dead"))["policies"][0]["updates"], 205);
}

TEST(Saturation, IsAWarningOfLearningFromALog) {
  const TemporaryFolder folder;
  const std::string config =
      folder.file("random.toml", "[input]\ngraph = \"" + kGraph + "\"\ndevices = \"" + kDevices +
                                     "\"\n[policy]\nmethod = \"random\"\npreset = \"tuned\"\ngroups = 8\n");
  ASSERT_EQ(run({"run", config, "--run-dir", folder.at("log"), "--episodes", "40", "--quiet"}).status, 0);
  const Finished learned =
      run({"replay", folder.at("log"), "--learn", "colocrl", "--run-dir", folder.at("dead"), "--passes", "3",
           "--quiet", "--set", "policy.sequence.hidden=8", "--set", "policy.learning_rate=10", "--set",
           "policy.entropy=0"});
  ASSERT_EQ(learned.status, 0) << learned.err;
  EXPECT_EQ(occurrences(learned.err, "\n"), 1u) << learned.err;
  EXPECT_EQ(occurrences(learned.err, "warning: the policy "), 1u) << learned.err;
  EXPECT_THAT(learned.err, HasSubstr(": the gradient was below 1e-10 in updates "));
  EXPECT_THAT(learned.err,
              HasSubstr("; raise policy.sequence.temperature, lower policy.learning_rate or raise "
                        "policy.entropy\n"));
  EXPECT_TRUE(listed(folder.at("dead"))["saturated"].get<bool>()) << "a run without episodes of its own";
}

TEST(Saturation, IsNotFoundInAPolicyThatLearns) {
  const TemporaryFolder folder;
  const Finished done = train(folder, "alive", kLearning);
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.err, Not(HasSubstr("warning")));
  const json run_ = listed(folder.at("alive"));
  EXPECT_FALSE(run_["saturated"].get<bool>());
  EXPECT_FALSE(run_["policies"][0]["saturated"].get<bool>());
  EXPECT_TRUE(run_["policies"][0]["warning"].is_null());
  for (const json& entropy : run_["policies"][0]["entropy"]) EXPECT_GT(entropy, 0.01) << run_;
  EXPECT_THAT(run({"runs", folder.at("alive")}).out, Not(HasSubstr("warning")));
  const std::string report = text_in(folder.at("alive/report.html"));
  EXPECT_THAT(report, HasSubstr("data-part=\"policy\""));
  EXPECT_THAT(report, Not(HasSubstr("Warning: ")));
}

}  // namespace
}  // namespace emplace::testing

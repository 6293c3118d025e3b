// Goal: another policy learns from the measurements of a run, and places graphs; what cannot be learned is
// refused in one line and leaves nothing. Method: real processes on a small real graph.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/system/process.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

Finished draw(const TemporaryFolder& folder, const std::string& method) {
  const std::string config = folder.file(
      method + ".toml", "[input]\ngraph = \"" + kGraph + "\"\ndevices = \"" + kDevices +
                            "\"\n[policy]\nmethod = \"" + method +
                            "\"\npreset = \"tuned\"\ngroups = 8\n[policy.hierarchical]\nhidden = 8\n");
  return run({"run", config, "--run-dir", folder.at(method), "--episodes", "40", "--json", "--quiet"});
}

TEST(ReplayLearn, AnotherPolicyLearnsFromTheLog) {
  const TemporaryFolder folder;
  ASSERT_EQ(draw(folder, "random").status, 0);
  const std::vector<std::string> learn{"replay", folder.at("random"),        "--learn",  "colocrl",
                                       "--set",  "policy.sequence.hidden=8", "--passes", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), learn.begin(), learn.end());
    return run(more);
  };
  const Finished learned = with({"--json", "--quiet"});
  ASSERT_EQ(learned.status, 0) << learned.err;
  const json report = json::parse(learned.out);
  EXPECT_EQ(report["placements"], 160);
  EXPECT_EQ(report["learned"], 160);
  EXPECT_EQ(report["updates"], 80);
  EXPECT_GT(report["effective_share"].get<double>(), 0.1);
  EXPECT_LE(report["log_best_step_time_s"].get<double>(), report["log_mean_step_time_s"].get<double>());
  const Finished placed = run({"place", kGraph, "-d", kDevices, "--policy",
                               report["run_dir"].get<std::string>(), "--json", "--quiet"});
  ASSERT_EQ(placed.status, 0) << placed.err;
  const json answer = json::parse(placed.out);
  EXPECT_EQ(answer["method"], "colocrl (zero-shot)");
  EXPECT_EQ(answer["measured"]["valid"], report["valid"]);
  EXPECT_EQ(answer["measured"]["step_time_s"], report["step_time_s"]);
  const Finished verified = run({"replay", report["run_dir"].get<std::string>(), "--verify"});
  EXPECT_EQ(verified.status, 2) << "its episodes are another run's";
  EXPECT_NE(verified.err.find("log of another run"), std::string::npos) << verified.err;
  // The same bits in another folder; and the text output.
  const Finished again = with({"--run-dir", folder.at("again")});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.out.find(report["parameters_sha256"].get<std::string>()), std::string::npos) << again.out;
  EXPECT_NE(again.out.find("likeliest"), std::string::npos);
}

TEST(ReplayLearn, RefusesInOneLineAndLeavesNothing) {
  const TemporaryFolder folder;
  ASSERT_EQ(draw(folder, "hierarchical").status, 0);
  const auto refused = [&](const std::vector<std::string>& more, const std::string& what) {
    std::vector<std::string> arguments{"replay", folder.at("hierarchical"), "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished done = run(arguments);
    EXPECT_EQ(done.status, 2) << done.err;
    EXPECT_NE(done.err.find(what), std::string::npos) << done.err;
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    for (const auto& entry : std::filesystem::directory_iterator{folder.at("hierarchical")})
      EXPECT_FALSE(entry.path().filename().string().starts_with("learned-")) << entry.path();
  };
  refused({"--learn", "colocrl"}, "samples a new grouping");
  refused({"--learn", "placto"}, "did you mean 'placeto'");
  refused({"--learn", "placeto", "--verify"}, "--learn");
  refused({"--learn", "colocrl", "--set", "policy.groops=3"}, "did you mean 'groups'");
}

}  // namespace
}  // namespace emplace::testing

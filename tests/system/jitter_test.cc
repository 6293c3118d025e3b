// Goal: what users see of steps with noise: `evaluate --jitter` prints the spread, repeats itself with the
// seed, obeys the order of a placement file, and refuses what it cannot do with one line. Method: the built
// program as a process, on a small real training step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/system/json_of.h"
#include "tests/system/process.h"

namespace emplace {
namespace {

using nlohmann::ordered_json;
using testing::Finished;
using ::testing::HasSubstr;
using testing::json_of;
using testing::kDevices;
using testing::kGraph;
using testing::run;
using testing::TemporaryFolder;

class JitterOption : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run({"place", kGraph, "-d", kDevices, "-m", "round-robin", "-o", placement_}).status, 0);
  }
  std::string at(const char* name) const { return (folder_.path() / name).string(); }
  std::vector<std::string> evaluate(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"evaluate", kGraph, placement_, "-d", kDevices};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  const TemporaryFolder folder_;
  const std::string placement_ = at("p.json");
};

TEST_F(JitterOption, EvaluatePrintsTheSpreadAndRepeatsItWithTheSeed) {
  const ordered_json printed = json_of(evaluate({"--jitter", "5%"}));
  const ordered_json& jitter = printed["jitter"];
  EXPECT_EQ(jitter["share"], 0.05);
  EXPECT_EQ(jitter["ties"], true);
  EXPECT_EQ(jitter["draws"], 64);
  EXPECT_EQ(jitter["over_memory"], 0);
  const double nominal = printed["step_time_s"];
  EXPECT_GT(jitter["median_s"], 0.9 * nominal);
  EXPECT_LT(jitter["worst_s"], 1.5 * nominal);
  EXPECT_LE(jitter["median_s"], jitter["p90_s"]);
  EXPECT_LE(jitter["p90_s"], jitter["p95_s"]);
  EXPECT_LE(jitter["p95_s"], jitter["worst_s"]);
  EXPECT_LT(jitter["median_s"], jitter["worst_s"]);
  EXPECT_EQ(json_of(evaluate({"--jitter", "0.05"}))["jitter"], jitter);
  EXPECT_NE(json_of(evaluate({"--jitter", "5%", "--seed", "2"}))["jitter"], jitter);
  EXPECT_EQ(json_of(evaluate({"--jitter", "ties", "--draws", "3"}))["jitter"]["draws"], 3);
  EXPECT_THAT(run(evaluate({"--jitter", "5%"})).out, HasSubstr("jitter     5 %: median "));
  EXPECT_FALSE(json_of(evaluate()).contains("jitter"));
}

TEST_F(JitterOption, EveryStepIsNominalWithoutNoise) {
  for (const char* dispatch : {"program", "fifo"}) {
    const ordered_json printed = json_of(evaluate({"--jitter", "0%", "--dispatch", dispatch}));
    for (const char* key : {"median_s", "p90_s", "p95_s", "worst_s"})
      EXPECT_EQ(printed["jitter"][key], printed["step_time_s"]) << dispatch << " " << key;
  }
}

TEST_F(JitterOption, NoiseObeysTheOrderOfThePlacementFile) {
  ASSERT_EQ(
      run({"place", kGraph, "-d", kDevices, "--budget", "2s", "--order", "search", "-o", placement_}).status,
      0);
  const ordered_json printed = json_of(evaluate({"--jitter", "0%"}));
  EXPECT_EQ(printed["jitter"]["worst_s"], printed["step_time_s"]);
}

TEST_F(JitterOption, PlaceShowsTheSpreadOfItsAnswerAsEvaluateDoes) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"-m", "scotch"}, {"--order", "search", "--budget", "2s"}}) {
    std::vector<std::string> arguments{"place", kGraph, "-d", kDevices, "-o", placement_, "--jitter", "5%"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ordered_json placed = json_of(arguments)["jitter"];
    EXPECT_EQ(placed, json_of(evaluate({"--jitter", "5%"}))["jitter"]) << more[0];
  }
}

TEST_F(JitterOption, PlaceSearchesForARobustPlacement) {
  const std::vector<std::string> robust{"place",    kGraph, "-d",       kDevices,    "-o", placement_,
                                        "--budget", "3s",   "--robust", "--threads", "1"};
  const ordered_json printed = json_of(robust);
  const double step_s = printed["measured"]["step_time_s"];
  const double fastest_s = printed["robust"]["fastest_step_time_s"];
  EXPECT_LE(step_s, 1.02 * fastest_s);
  EXPECT_LE(fastest_s, step_s);
  EXPECT_EQ(printed["jitter"]["share"], 0.05);
  EXPECT_EQ(printed["robust"]["fastest_jitter"]["draws"], 64);
  EXPECT_EQ(json_of(evaluate())["step_time_s"], step_s);
  EXPECT_EQ(json_of(evaluate({"--jitter", "5%"}))["jitter"], printed["jitter"]);
  std::vector<std::string> text = robust;
  text.insert(text.end(), {"--jitter", "10%", "--draws", "16"});
  const Finished done = run(text);
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("jitter     10 %: median "));
  EXPECT_THAT(done.out, HasSubstr("fastest    "));
}

TEST_F(JitterOption, RobustNeedsASearchOfStepTimesInIssueOrder) {
  const auto refused = [&](const std::vector<std::string>& more, const char* expected) {
    std::vector<std::string> arguments{"place", kGraph, "-d", kDevices, "--robust"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished done = run(arguments);
    EXPECT_EQ(done.status, 2);
    EXPECT_THAT(done.err, HasSubstr(expected));
  };
  refused({"--order", "search"}, "needs --order issue");
  refused({"-m", "anneal"}, "needs --method auto");
  refused({"--objective", "max-load"}, "needs --objective step-time");
  refused({"--executor", "placeto"}, "needs --executor sim");
  refused({"--policy", "run"}, "needs a budget");
}

TEST_F(JitterOption, BestOfWritesPlacementsThatDifferAndAreNearlyAsFast) {
  const ordered_json printed = json_of({"place", kGraph, "-d", kDevices, "--budget", "4s", "--best-of", "3",
                                        "--threads", "1", "-o", placement_});
  const ordered_json& all = printed["placements"];
  ASSERT_GE(all.size(), 1u);
  ASSERT_LE(all.size(), 3u);
  EXPECT_EQ(all[0]["placement"], placement_);
  EXPECT_EQ(all[0]["step_time_s"], printed["measured"]["step_time_s"]);
  for (std::size_t k = 0; k < all.size(); ++k) {
    const std::string file = all[k]["placement"];
    if (k > 0) {
      EXPECT_EQ(file, at(("p-" + std::to_string(k + 1) + ".json").c_str()));
    }
    EXPECT_EQ(json_of({"evaluate", kGraph, file, "-d", kDevices})["step_time_s"], all[k]["step_time_s"]);
    EXPECT_LE(all[k]["step_time_s"], 1.02 * all[0]["step_time_s"].get<double>());
  }
  EXPECT_EQ(run({"place", kGraph, "-d", kDevices, "--best-of", "3", "--robust"}).status, 2);
  EXPECT_EQ(run({"place", kGraph, "-d", kDevices, "--best-of", "0"}).status, 2);
  EXPECT_EQ(run({"place", kGraph, "-d", kDevices, "--best-of", "2", "-m", "scotch"}).status, 2);
  EXPECT_EQ(run({"place", kGraph, "-d", kDevices, "--best-of", "2", "--objective", "latency"}).status, 2);
}

TEST_F(JitterOption, IsRefusedWhereNoiseIsNotSupported) {
  const auto refused = [&](std::vector<std::string> more, const char* expected) {
    const Finished done = run(evaluate(std::move(more)));
    EXPECT_EQ(done.status, 2);
    EXPECT_THAT(done.err, HasSubstr(expected));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  };
  for (const char* share : {"26%", "-1%", "nan", "much", "1"})
    refused({"--jitter=" + std::string{share}}, "use a share from 0% to 25%, or ties");
  refused({"--jitter", "5%", "--draws", "0"}, "--draws");
  refused({"--jitter", "5%", "--objective", "max-load"}, "needs --objective step-time");
  refused({"--jitter", "5%", "--executor", "placeto"}, "needs --executor sim");
  refused({"--jitter", "5%", "--executor", "fake"}, "needs --executor sim");
  refused({"--draws", "5"}, "needs --jitter");
}

}  // namespace
}  // namespace emplace

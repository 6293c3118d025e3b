// Goal: the commands that take memory plans show what they save and cost, compare methods with them, and
// bound them. Method: the built program as a process, on a training step with three quarters of the memory
// that it needs, and runs on two devices on which it provably does not fit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/system/process.h"

namespace emplace {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using testing::Finished;
using ::testing::HasSubstr;
using testing::run;
using testing::TemporaryFolder;

class MemoryPlans : public ::testing::Test {
 protected:
  MemoryPlans() {
    EXPECT_EQ(run({"generate", "inception-v3", "--training", "--batch", "8", "-o", graph_}).status, 0);
    const ordered_json device = json_of({"inspect", graph_, "-d", "v100"})["devices"][0];
    needs_ = device["all_ops_peak_bytes"].get<std::int64_t>();
    reserve_ = std::to_string(device["memory_bytes"].get<std::int64_t>() - needs_ * 3 / 4) + "B";
  }
  static ordered_json json_of(std::vector<std::string> words, int status = 0) {
    words.push_back("--json");
    const Finished done = run(words);
    EXPECT_EQ(done.status, status) << done.err;
    return ordered_json::parse(done.out, nullptr, /*allow_exceptions=*/false);
  }
  /// A command about the graph on the machine with too little memory.
  std::vector<std::string> tight(const std::string& command, const std::vector<std::string>& more) const {
    std::vector<std::string> words{command, graph_, "-d", "v100", "--reserve", reserve_};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  const TemporaryFolder folder_;
  const std::string graph_ = (folder_.path() / "inception.json.gz").string();
  std::int64_t needs_ = 0;
  std::string reserve_;
};

TEST_F(MemoryPlans, ExplainPricesWhatAPlanSaves) {
  const std::string plan = (folder_.path() / "plan.json").string();
  const Finished placed = run(tight("place", {"--allow", "recompute", "--budget", "0.3s", "-o", plan}));
  ASSERT_EQ(placed.status, 0) << placed.err;
  const std::vector<std::string> explain{"explain", plan,   "--graph",   graph_,
                                         "-d",      "v100", "--reserve", reserve_};
  EXPECT_THAT(run(explain).out, AllOf(HasSubstr("memory plan: "), HasSubstr("less at the peak of gpu:0"),
                                      HasSubstr(" per GiB")));
  const ordered_json shown = json_of(explain), without = shown["without_plan"];
  EXPECT_EQ(without["peak_memory_bytes"][0].get<std::int64_t>(), needs_);
  const double saved =
      without["peak_memory_bytes"][0].get<double>() - shown["peak_memory_bytes"][0].get<double>();
  const double more_s = shown["step_time_s"].get<double>() - without["step_time_s"].get<double>();
  EXPECT_GT(more_s, 0);
  EXPECT_NEAR(without["s_per_gib"].get<double>(), more_s / (saved / (1 << 30)), 1e-9);
}

TEST_F(MemoryPlans, ExplainSimulatesAPlanWithoutEachBlock) {
  const std::string plan = (folder_.path() / "plan.json").string();
  ASSERT_EQ(run(tight("place", {"--allow", "recompute", "--budget", "0.3s", "-o", plan})).status, 0);
  const std::vector<std::string> explain{"explain", plan,   "--graph",   graph_,
                                         "-d",      "v100", "--reserve", reserve_};
  const ordered_json shown = json_of(explain), decisions = shown["decisions"];
  ordered_json file = ordered_json::parse(std::ifstream{plan});
  ASSERT_EQ(decisions.size(), file["recompute"].size());
  double ops_s = 0, again_s = 0;
  for (const ordered_json& decision : decisions) {
    EXPECT_EQ(decision["decision"], "recompute");
    EXPECT_EQ(decision["on"], "gpu:0");
    ops_s += decision["time_s"].get<double>();
  }
  for (const ordered_json& part_s : shown["memory"][0]["recomputed_s"]) again_s += part_s.get<double>();
  EXPECT_NEAR(again_s, ops_s, 1e-8) << "all of it is in the line of bars, once";
  // The dearest block, whose decisions are taken out of the file.
  const ordered_json block = shown["decisions_by_block"][0];
  auto kept = ordered_json::array();
  for (const ordered_json& decision : decisions)
    if (decision["block"] != block["block"]) kept.push_back(decision["op"]);
  ASSERT_EQ(kept.size() + block["recomputed_ops"].get<std::size_t>(), decisions.size());
  file["recompute"] = kept;
  const std::string other = (folder_.path() / "other.json").string();
  std::ofstream{other} << file.dump();
  const ordered_json step =
      json_of({"evaluate", graph_, other, "-d", "v100"});  // It fits without the reserve.
  EXPECT_EQ(block["kept"]["step_time_s"], step["step_time_s"]);
  EXPECT_EQ(block["kept"]["peak_memory_bytes"], step["peak_memory_bytes"]);
  EXPECT_EQ(block["kept"]["valid"].get<bool>(), run(tight("evaluate", {other})).status == 0);
  EXPECT_NEAR(block["s_per_gib"].get<double>() * block["frees_bytes"].get<double>() / (1 << 30),
              block["time_s"].get<double>(), 1e-12);
  EXPECT_THAT(run(explain).out, AllOf(HasSubstr("of ops that run again"), HasSubstr("decisions in")));
}

TEST_F(MemoryPlans, CompareGivesMethodsDecisionsWhereTheyDoNotFit) {
  EXPECT_EQ(run(tight("compare", {"--methods", "single-gpu"})).status, 3);
  const ordered_json table =
      json_of(tight("compare", {"--methods", "single-gpu,auto", "--budget", "0.3s", "--allow", "recompute"}));
  ASSERT_EQ(table["methods"].size(), 2u);
  for (const ordered_json& row : table["methods"]) {
    EXPECT_TRUE(row["valid"].get<bool>()) << row;
    EXPECT_GT(row["memory_plan"]["recomputed_ops"].get<int>(), 0) << row;
    EXPECT_GE(row["step_time_s"].get<double>(), table["lower_bound_s"].get<double>());
  }
  EXPECT_THAT(run(tight("compare", {"--methods", "single-gpu", "--allow", "recompute"})).out,
              HasSubstr("recomputed ops"));
  EXPECT_EQ(table["lower_bound_s"], json_of(tight("bound", {"--allow", "recompute"}))["lower_bound_s"]);
  EXPECT_THAT(run(tight("compare", {"--allow", "order"})).err, HasSubstr("has no order here"));
}

class PlannedRuns : public MemoryPlans {
 protected:
  /// A command about the graph on two devices that it provably does not fit.
  std::vector<std::string> on_two(std::vector<std::string> words,
                                  const std::vector<std::string>& more) const {
    words.insert(words.end(), {"-d", machine_});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// A deterministic run on them.
  ordered_json run_of(const std::string& directory, const std::vector<std::string>& more) const {
    std::vector<std::string> words{"run", config_, "--run-dir", directory, "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return json_of(words);
  }
  /// What the run measured, from the episode to the bytes that were moved: without host, executor and time.
  static std::set<std::string> measured(const std::string& directory, const std::string& file) {
    EXPECT_EQ(run({"export", directory, "--to", "csv", "-o", file}).status, 0);
    std::set<std::string> rows;
    std::ifstream lines{file};
    for (std::string line; std::getline(lines, line);) {
      std::size_t end = 0;
      for (int column = 0; column < 10; ++column) end = line.find(',', end) + 1;
      rows.insert(line.substr(line.find(',') + 1, end - line.find(',') - 1));
    }
    return rows;
  }

  const std::string machine_ = "v100:" + std::to_string(needs_ * 23 / 50) + "B x 2";
  const std::string config_ =
      folder_.file("run.toml", "[run]\ndeterministic = true\nepisodes = 2\n[input]\ngraph = '" + graph_ +
                                   "'\ndevices = '" + machine_ +
                                   "'\n[policy]\nmethod = 'hierarchical'\ngroups = 8\n"
                                   "[policy.hierarchical]\nhidden = 8\n[compare]\nmethods = "
                                   "['contiguous']\n[executor]\nallow = 'recompute'\n");
};

TEST_F(PlannedRuns, ARunFindsWhatFitsWithAPlanAndRecordsTheTimeOfItsFile) {
  EXPECT_EQ(run(on_two({"place", graph_}, {"--allow", "none"})).status, 3);
  const std::string one = folder_.at("one");
  const ordered_json summary = run_of(one, {});
  const double best_s = summary["best_step_time_s"].get<double>();
  ASSERT_GT(best_s, 0);
  EXPECT_GE(best_s, summary["lower_bound_s"].get<double>());
  EXPECT_GT(summary["memory_plan"]["recomputed_ops"].get<int>(), 0);
  for (const auto& [name, step_time_s] :
       {std::pair{"/best.placement.json", best_s},
        {"/recommended.placement.json", summary["recommended"]["step_time_s"].get<double>()}}) {
    const ordered_json evaluated = json_of(on_two({"evaluate", graph_, one + name}, {}));
    EXPECT_TRUE(evaluated["valid"].get<bool>()) << name;
    EXPECT_EQ(evaluated["step_time_s"].get<double>(), step_time_s) << name;
  }
  std::ifstream text{one + "/best.placement.json"};
  const ordered_json file = ordered_json::parse(text);
  EXPECT_EQ(file["version"], 2);
  EXPECT_GT(file["recompute"].size(), 0u);
  EXPECT_EQ(file["measured"]["step_time_s"].get<double>(), best_s);

  // Everything about the run knows the plan.
  EXPECT_TRUE(json_of({"replay", one, "--verify"})["identical"].get<bool>());
  const ordered_json again = json_of({"replay", one, "--re-measure", "sim"});
  EXPECT_GT(again["measured"].get<int>(), 0);
  EXPECT_EQ(again["error"]["max"].get<double>(), 0);
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--re-measure", "fake"}, {"--re-measure", "sim", "--dispatch", "fifo"}}) {
    std::vector<std::string> words{"replay", one};
    words.insert(words.end(), wrong.begin(), wrong.end());
    const Finished refused = run(words);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr("knows no memory decisions"));
  }
  const std::string zero_shot = folder_.at("zero_shot.json");
  const ordered_json placed = json_of(on_two(
      {"place", graph_}, {"--policy", one, "--samples", "4", "--allow", "recompute", "-o", zero_shot}));
  EXPECT_GT(placed["memory_plan"]["recompute"].size(), 0u);
  EXPECT_EQ(json_of(on_two({"evaluate", graph_, zero_shot}, {}))["step_time_s"],
            placed["measured"]["step_time_s"]);
  const ordered_json report = json_of({"report", one});
  EXPECT_EQ(report["graphs"][0]["best_step_time_s"], summary["recommended"]["step_time_s"]);

  // The measurements of its placements do not change.
  EXPECT_EQ(run({"run", "--run-dir", one, "--resume", "--set", "executor.allow="}).status, 2);
  EXPECT_GE(json_of({"run", "--run-dir", one, "--resume", "--episodes", "3", "--quiet"})["episodes"], 3);
  EXPECT_EQ(run({"run", config_, "--set", "executor.kind=replay", "--set", "executor.log=" + one, "--set",
                 "executor.allow=", "--run-dir", folder_.at("driven")})
                .status,
            2);
}

TEST_F(PlannedRuns, DoNotDependOnWhatMeasures) {
  std::set<std::set<std::string>> rows;
  std::set<std::string> parameters;
  for (const std::string setting : {"executor.count=1", "executor.count=3", "reward.source=local"}) {
    const std::string directory = folder_.at(setting);
    const ordered_json summary =
        run_of(directory, {"--set", setting, "--set", "run.starts=['best-heuristic']"});
    parameters.insert(summary["parameters_sha256"].get<std::string>());
    rows.insert(measured(directory, folder_.at(setting + ".csv")));
    EXPECT_EQ(rows.begin()->size(), 9u) << "two episodes of four placements, and the head of the table";
  }
  EXPECT_EQ(parameters.size(), 1u);
  EXPECT_EQ(rows.size(), 1u);
}

TEST_F(PlannedRuns, RefusesGraphsAndWordsWithoutDecisions) {
  const std::string forward = folder_.at("forward.json.gz"), directory = folder_.at("none");
  EXPECT_EQ(run({"generate", "inception-v3", "--batch", "8", "-o", forward}).status, 0);
  for (const auto& [setting, what] :
       {std::pair{"input.graph=" + forward, "needs a training graph"},
        {std::string{"executor.allow=recompute,oflload"}, "did you mean 'offload'?"},
        {std::string{"executor.kind=cpu"}, "needs executor.kind = 'sim', not 'cpu'"}}) {
    const Finished refused = run({"run", config_, "--run-dir", directory, "--quiet", "--set", setting});
    EXPECT_EQ(refused.status, 2) << setting;
    EXPECT_THAT(refused.err, AllOf(HasSubstr("executor.allow: "), HasSubstr(what)));
    EXPECT_EQ(std::ranges::count(refused.err, '\n'), 1) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(directory)) << setting;
  }
}

// A method that learns chooses devices, for whose placements the decisions follow.
TEST_F(PlannedRuns, PlaceAndCompareByLearning) {
  const std::string file = folder_.at("learned.json");
  const ordered_json placed =
      json_of(on_two({"place", graph_}, {"--method", "simple-planner", "--allow", "recompute", "--budget",
                                         "1s", "--quiet", "-o", file}));
  EXPECT_GT(placed["memory_plan"]["recompute"].size(), 0u);
  EXPECT_EQ(json_of(on_two({"evaluate", graph_, file}, {}))["step_time_s"],
            placed["measured"]["step_time_s"]);
  const ordered_json table = json_of(on_two({"compare", graph_}, {"--methods", "simple-planner", "--allow",
                                                                  "recompute", "--budget", "1s", "--quiet"}));
  EXPECT_TRUE(table["methods"][0]["valid"].get<bool>());
  EXPECT_GT(table["methods"][0]["memory_plan"]["recomputed_ops"].get<int>(), 0);
}

}  // namespace
}  // namespace emplace

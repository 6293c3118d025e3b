// Goal: the commands that take micro-batches place, measure, bound and explain steps of a pipeline, and
// refuse what it cannot be combined with. Method: the built program as a process, on a training step on three
// GPUs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "tests/system/process.h"

namespace emplace {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::Contains;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run;
using testing::TemporaryFolder;

class Pipelines : public ::testing::Test {
 protected:
  Pipelines() {
    EXPECT_EQ(run({"generate", "inception-v3", "--training", "--batch", "8", "-o", graph_}).status, 0);
  }
  static ordered_json json_of(std::vector<std::string> words) {
    words.push_back("--json");
    const Finished done = run(words);
    EXPECT_EQ(done.status, 0) << done.err;
    return ordered_json::parse(done.out, nullptr, /*allow_exceptions=*/false);
  }
  std::vector<std::string> about(const std::string& command, const std::vector<std::string>& more) const {
    std::vector<std::string> words{command, graph_, "-d", "v100 x 3"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// The one line of an error with status 2.
  std::string refused(const std::vector<std::string>& words) const {
    const Finished done = run(words);
    EXPECT_EQ(done.status, 2) << done.out;
    return done.err;
  }

  const TemporaryFolder folder_;
  const std::string graph_ = (folder_.path() / "inception.json.gz").string();
  const std::string placed_ = (folder_.path() / "placed.json").string();
};

TEST_F(Pipelines, ArePlacedInStagesThatBeatOneDevice) {
  const ordered_json answer =
      json_of(about("place", {"--micro-batches", "12", "--budget", "1s", "-o", placed_}));
  const ordered_json& strategy = answer["strategy"];
  EXPECT_EQ(strategy["micro_batches"], 12);
  EXPECT_EQ(strategy["replicas"], 1);
  EXPECT_EQ(strategy["schedule"], "1f1b");
  EXPECT_GE(strategy["stages"], 3);
  const double step_s = answer["measured"]["step_time_s"].get<double>();
  EXPECT_NEAR(answer["samples_per_s"].get<double>(), 12 * 8 / step_s, 1e-6 / step_s);
  EXPECT_GE(step_s, answer["lower_bound_s"].get<double>());
  EXPECT_EQ(json_of(about("bound", {"--micro-batches", "12"}))["lower_bound_s"], answer["lower_bound_s"]);
  const ordered_json single = json_of(about("place", {"--micro-batches", "12", "--method", "single-gpu"}));
  EXPECT_LT(step_s, 0.6 * single["measured"]["step_time_s"].get<double>());

  // A comparison has the stages among its rows, and no method that knows other steps.
  std::vector<std::string> compared;
  double stages_s = 0;
  const ordered_json table = json_of(about("compare", {"--micro-batches", "12", "--budget", "0.3s"}));
  double copies_s = 0;
  for (const auto& row : table["methods"]) {
    compared.push_back(row["method"]);
    if (compared.back() == "data-parallel") copies_s = row["step_time_s"];
    if (compared.back() == "stages") stages_s = row["step_time_s"];
  }
  EXPECT_LT(stages_s, single["measured"]["step_time_s"].get<double>());
  EXPECT_NEAR(copies_s, single["measured"]["step_time_s"].get<double>() / 3, 0.2 * copies_s);
  EXPECT_THAT(refused(about("compare", {"--micro-batches", "6", "--replicas", "3"})),
              HasSubstr("--replicas: is no option of a comparison"));
  EXPECT_THAT(compared, AllOf(Contains("stages"), Contains("data-parallel"), Contains("auto"),
                              Not(Contains("towers-sync"))));

  // The file states the strategy, and what reads it obeys it; an option is stronger.
  const Finished evaluated = run(about("evaluate", {placed_}));
  EXPECT_THAT(evaluated.err, HasSubstr("micro-batches: 12 (1f1b), from the placement file"));
  const ordered_json again = json_of(about("evaluate", {placed_}));
  EXPECT_EQ(again["step_time_s"], step_s);
  EXPECT_EQ(again["strategy"], strategy);
  EXPECT_EQ(json_of(about("evaluate", {placed_, "--micro-batches", "2"}))["strategy"]["micro_batches"], 2);

  // A step as an ordinary graph takes the same time, but for launches that updates share.
  const ordered_json explained = json_of({"explain", placed_, "--graph", graph_, "-d", "v100 x 3"});
  EXPECT_NEAR(explained["step_time_s"].get<double>(), step_s, 1e-4 * step_s);
  const std::string trace = (folder_.path() / "trace.json").string();
  EXPECT_EQ(run(about("evaluate", {placed_, "--trace", trace})).status, 0);
  const auto events = ordered_json::parse(std::ifstream{trace})["traceEvents"];
  std::size_t updates = 0, last_micro_batch = 0;
  for (const auto& event : events) {
    if (event.value("ph", "") != "X") continue;
    const std::string name = event.value("name", "");
    last_micro_batch += name.ends_with("@11");
    updates += name.find('@') == std::string::npos;
  }
  EXPECT_GT(last_micro_batch, 900u);
  EXPECT_GT(updates, 100u);
}

TEST_F(Pipelines, AreReplicatedWhereThatIsFaster) {
  const ordered_json answer = json_of({"place", graph_, "-d", "v100 x 4", "--strategy", "--micro-batches",
                                       "8", "--budget", "2s", "-o", placed_});
  const ordered_json& strategy = answer["strategy"];
  const auto replicas = strategy["replicas"].get<std::size_t>();
  EXPECT_GT(replicas, 1u);
  ASSERT_EQ(strategy["groups"].size(), replicas);
  EXPECT_EQ(strategy["groups"][0].size(), 4 / replicas);
  const double step_s = answer["measured"]["step_time_s"].get<double>();
  EXPECT_GE(step_s, answer["lower_bound_s"].get<double>());
  EXPECT_LT(step_s, json_of({"place", graph_, "-d", "v100 x 4", "--micro-batches", "8", "--budget",
                             "1s"})["measured"]["step_time_s"]
                        .get<double>());

  // The file keeps the devices of each replica.
  const ordered_json again = json_of({"evaluate", graph_, placed_, "-d", "v100 x 4"});
  EXPECT_EQ(again["step_time_s"], step_s);
  EXPECT_EQ(again["strategy"], strategy);
  EXPECT_EQ(run({"explain", placed_, "--graph", graph_, "-d", "v100 x 4"}).status, 0);
  const std::string trace = (folder_.path() / "trace.json").string();
  EXPECT_EQ(run({"evaluate", graph_, placed_, "-d", "v100 x 4", "--trace", trace}).status, 0);
  std::size_t reduced = 0;
  const auto traced = ordered_json::parse(std::ifstream{trace});
  for (const auto& event : traced["traceEvents"])
    reduced += event.value("name", "").find("@sum@r") != std::string::npos;
  EXPECT_GE(reduced, replicas);

  // A given number of replicas is kept, and needs micro-batches that it divides.
  const ordered_json two = json_of(
      {"place", graph_, "-d", "v100 x 4", "--replicas", "2", "--micro-batches", "8", "--budget", "1s"});
  EXPECT_EQ(two["strategy"]["replicas"], 2);
  EXPECT_EQ(json_of({"place", graph_, "-d", "v100 x 2", "--strategy", "--budget",
                     "1s"})["strategy"]["micro_batches"],
            8);
  const auto refused_with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"place", graph_, "-d", "v100 x 4"};
    words.insert(words.end(), more.begin(), more.end());
    return refused(words);
  };
  EXPECT_THAT(refused_with({"--replicas", "2"}), HasSubstr("--replicas 2: need micro-batches to share"));
  EXPECT_THAT(refused_with({"--replicas", "2", "--micro-batches", "5"}),
              HasSubstr("--micro-batches 5: cannot be divided among 2 replicas"));
  EXPECT_THAT(refused_with({"--replicas", "3", "--micro-batches", "6"}),
              HasSubstr("--replicas 3: 4 devices cannot be divided among them"));
  EXPECT_THAT(refused_with({"--strategy", "--method", "metis"}), HasSubstr("--strategy: is for auto"));
}

TEST_F(Pipelines, RecomputeWhereTheyDoNotFitOtherwise) {
  const Finished kept =
      run({"place", graph_, "-d", "v100:720MiB x 2", "--micro-batches", "8", "--budget", "1s", "--json"});
  const Finished recomputed = run({"place", graph_, "-d", "v100:720MiB x 2", "--micro-batches", "8",
                                   "--allow", "recompute", "--budget", "1s", "--json"});
  EXPECT_EQ(kept.status, 3) << kept.out;
  EXPECT_EQ(recomputed.status, 0) << recomputed.err;
}

TEST_F(Pipelines, RefuseWhatTheyCannotBe) {
  EXPECT_THAT(refused(about("place", {"--micro-batches", "0"})),
              HasSubstr("--micro-batches '0': is no number of micro-batches"));
  EXPECT_THAT(refused(about("place", {"--micro-batches", "9999999999"})), HasSubstr("use 1 to 4096"));
  EXPECT_THAT(refused(about("place", {"--micro-batches", "4", "--schedule", "1f1c"})),
              HasSubstr("--schedule: unknown schedule '1f1c'"));
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--objective", "throughput"},
                                               {"--dispatch", "fifo"},
                                               {"--order", "search"},
                                               {"--allow", "offload"},
                                               {"--robust"},
                                               {"--best-of", "2"},
                                               {"--jitter", "5%"},
                                               {"--method", "pretrained"},
                                               {"--method", "colocrl"},
                                               {"--executor", "placeto"}}) {
    std::vector<std::string> words = about("place", {"--micro-batches", "4"});
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_THAT(refused(words), HasSubstr("--micro-batches 4: ")) << more.front();
  }
  EXPECT_THAT(refused(about("compare", {"--micro-batches", "4", "--methods", "auto+order"})),
              HasSubstr("'auto+order'"));
  EXPECT_THAT(refused(about("compare", {"--micro-batches", "4", "--allow", "recompute"})),
              HasSubstr("is not compared with memory plans or noise"));
  const std::string forward = (folder_.path() / "forward.json").string();
  EXPECT_EQ(run({"generate", "inception-v3", "-o", forward}).status, 0);
  EXPECT_THAT(
      refused({"place", forward, "-d", "v100 x 2", "--micro-batches", "4"}),
      HasSubstr("micro-batches: need a training step, and no op of this graph has the phase backward"));
  EXPECT_THAT(refused(about("bound", {"--micro-batches", "4", "--certificate", "c.json"})),
              HasSubstr("--micro-batches 4: has no bound of memory plans and no certificate"));

  ASSERT_EQ(run(about("place", {"--micro-batches", "4", "--method", "single-gpu", "-o", placed_})).status, 0);
  EXPECT_THAT(run(about("evaluate", {placed_, "--executor", "cpu"})).err,
              HasSubstr("runs one micro-batch per step"));
  ordered_json file = ordered_json::parse(std::ifstream{placed_});
  file["strategy"]["replicas"] = 2;
  ASSERT_TRUE(write_file(placed_, file.dump()).ok());
  EXPECT_THAT(refused(about("evaluate", {placed_})),
              HasSubstr("its strategy has replicas without the devices of each"));
}

}  // namespace
}  // namespace emplace

// Goal: a policy that diverges ends its run with one line that names the update and the cure, and what was
// recorded before it can be replayed and continued. Method: real runs of a small real graph with a learning
// rate, and a reward, with which every policy diverges.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "record/run_reader.h"
#include "tests/system/process.h"

namespace emplace::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Finished diverging_run(const std::string& directory, const std::string& setting) {
  return run(small_run(
      directory, {"--quiet", "--set", "run.starts=[\"scratch\"]", "--set", setting, "--episodes", "60"}));
}

/// Expects exit status 4 and one line on standard error that contains `what`.
void expect_line(const Finished& done, const std::string& what) {
  EXPECT_EQ(done.status, 4) << done.err;
  EXPECT_THAT(done.err, ::testing::StartsWith("error: update "));
  EXPECT_THAT(done.err, HasSubstr(what));
  EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
}

std::uint64_t recorded_updates(const std::string& directory) {
  const auto db = record::RunReader::open(directory, record::Reading::kInProgress);
  EXPECT_TRUE(db.ok()) << db.error().context;
  EXPECT_TRUE((*db)->verify().ok());
  return (*db)->results().counters()->updates;
}

TEST(Divergence, EndsTheRunAndTheRecordCanBeReplayedAndResumed) {
  const TemporaryFolder folder;
  const std::string directory = folder.at("run");
  const Finished done = diverging_run(directory, "policy.learning_rate=1e30");
  const std::uint64_t updates = recorded_updates(directory);
  EXPECT_LT(updates, 20u);
  const std::string line =
      "error: update " + std::to_string(updates + 1) + ": the loss is not finite; lower policy.learning_rate";
  expect_line(done, line);
  const Finished replayed = run({"replay", directory, "--verify", "--json"});
  ASSERT_EQ(replayed.status, 0) << replayed.err;
  const json report = json::parse(replayed.out);
  EXPECT_EQ(report["identical"], true);
  EXPECT_EQ(report["updates"], updates);
  // The update was not learned, so it is made again, and diverges again.
  expect_line(run({"run", "--resume", "--run-dir", directory, "--quiet"}), line);
  EXPECT_EQ(recorded_updates(directory), updates);
}

TEST(Divergence, IsReportedAtItsFirstUpdate) {
  const TemporaryFolder folder;
  expect_line(diverging_run(folder.at("rate"), "policy.learning_rate=1e39"),
              "update 1: a parameter is not finite; lower policy.learning_rate");
  EXPECT_EQ(recorded_updates(folder.at("rate")), 0u);
}

TEST(Divergence, EndsLearningFromALog) {
  const TemporaryFolder folder;
  const std::string config = folder.file(
      "random.toml", "[input]\ngraph = \"" + shipped("tests/fixtures/graphs/cifar10_cnn-bs128.json") +
                         "\"\ndevices = \"" + shipped("configs/devices/quickstart.toml") +
                         "\"\n[policy]\nmethod = \"random\"\npreset = \"tuned\"\ngroups = 8\n");
  ASSERT_EQ(run({"run", config, "--run-dir", folder.at("run"), "--episodes", "40", "--quiet"}).status, 0);
  const Finished learned = run({"replay", folder.at("run"), "--learn", "colocrl", "--quiet", "--set",
                                "policy.sequence.hidden=8", "--set", "policy.learning_rate=1e39"});
  EXPECT_EQ(learned.status, 4) << learned.out;
  EXPECT_THAT(learned.err, HasSubstr("update 1: a parameter is not finite; lower policy.learning_rate\n"));
  EXPECT_EQ(std::count(learned.err.begin(), learned.err.end(), '\n'), 1) << learned.err;
}

}  // namespace
}  // namespace emplace::testing

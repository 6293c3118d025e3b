// Goal: a finished run can be replayed to the same bits, measured again, branched and continued; what it
// cannot support is refused in one line, and does not change it. Method: real runs of a small real graph, and
// the program again on their folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "record/run_writer.h"
#include "tests/system/process.h"

namespace emplace::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::vector<std::string> recorded_run(const std::string& directory, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"--quiet", "--json", "--set", "run.starts=[\"scratch\"]", "--set",
                             "record.checkpoint_every=10"});
  return small_run(directory, more);
}

json run_json(const std::vector<std::string>& arguments) {
  const Finished done = run(arguments);
  EXPECT_EQ(done.status, 0) << done.err;
  return json::parse(done.out, nullptr, false);
}

/// Expects exactly one line on standard error, which contains `what`.
void refused(const std::vector<std::string>& arguments, int status, const std::string& what) {
  const Finished done = run(arguments);
  EXPECT_EQ(done.status, status) << done.err;
  EXPECT_THAT(done.err, HasSubstr(what));
  EXPECT_THAT(done.err, ::testing::StartsWith("error: "));
  EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
}

/// Hashes of all files in a folder and its subfolders.
std::map<std::string, std::string> contents(const std::string& directory) {
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{directory})
    if (entry.is_regular_file()) all[entry.path().string()] = sha256_hex(*read_file(entry.path()));
  return all;
}

/// Reads a file repeatedly until it contains `text`; false after a deadline.
bool wait_for_text(const std::string& file, std::string_view text) {
  const SystemClock clock;
  for (const Nanos started = clock.now(); clock.now() - started < std::chrono::seconds{30};) {
    const auto bytes = read_file(file);
    if (bytes && std::string_view{reinterpret_cast<const char*>(bytes->data()), bytes->size()}.find(text) !=
                     std::string_view::npos)
      return true;
  }
  return false;
}

struct Recorded {
  std::string name;
  std::vector<std::string> settings;
};

class ReplayedRun : public ::testing::TestWithParam<Recorded> {};

TEST_P(ReplayedRun, IsBitIdentical) {
  const TemporaryFolder folder;
  std::vector<std::string> settings;
  for (const std::string& setting : GetParam().settings) settings.insert(settings.end(), {"--set", setting});
  settings.insert(settings.end(), {"--episodes", "60"});
  const json recorded = run_json(recorded_run(folder.at("run"), settings));
  const auto before = contents(folder.at("run"));
  const json replayed = run_json({"replay", folder.at("run"), "--verify", "--json"});
  EXPECT_TRUE(replayed["identical"].get<bool>()) << replayed.dump(2);
  EXPECT_EQ(replayed["updates"], recorded["updates"]);
  EXPECT_EQ(replayed["parameters_sha256"], recorded["parameters_sha256"]);
  EXPECT_GE(replayed["checkpoints"].get<int>(), 3);
  EXPECT_EQ(contents(folder.at("run")), before) << "looking back changes nothing";
}

INSTANTIATE_TEST_SUITE_P(
    Runs, ReplayedRun,
    ::testing::Values(
        Recorded{"Hierarchical1", {"executor.count=1"}},
        Recorded{"Hierarchical8",
                 {"executor.count=8", "pipeline.max_outstanding=8", "pipeline.placements_per_lease=1"}},
        Recorded{"FromTheBestHeuristic", {"run.starts=[\"best-heuristic\"]", "executor.count=3"}},
        Recorded{"Deterministic", {"run.deterministic=true", "executor.count=3"}},
        Recorded{"Colocrl8", {"policy.method=colocrl", "executor.count=8", "pipeline.batch_episodes=2"}},
        Recorded{"Spotlight8", {"policy.method=spotlight", "policy.preset=tuned", "executor.count=8"}},
        Recorded{
            "ImitatedHeuristic",
            {"policy.method=colocrl", "policy.sequence.table_scale=0.0", "run.starts=[\"best-heuristic\"]"}},
        Recorded{"SelfCritic", {"policy.method=colocrl", "reward.baseline=self-critic"}},
        Recorded{"SimplePlanner", {"policy.method=simple-planner", "executor.count=2"}},
        Recorded{"Placeto8",
                 {"policy.method=placeto", "policy.preset=tuned", "reward.returns=intermediate",
                  "reward.baseline=step-mean", "executor.count=8"}}),
    [](const auto& run) { return run.param.name; });

TEST(Replay, RangeStartsAtTheCheckpointBeforeIt) {
  const TemporaryFolder folder;
  run_json(recorded_run(folder.at("run"), {"--episodes", "60", "--set", "run.deterministic=true"}));
  const json replayed = run_json({"replay", folder.at("run"), "--from", "26", "--to", "45", "--json"});
  EXPECT_TRUE(replayed["identical"].get<bool>());
  EXPECT_GE(replayed["first_update"].get<int>(), 20);
  EXPECT_LE(replayed["last_update"].get<int>(), 45);
  EXPECT_LT(replayed["updates"].get<int>(), 30);
  refused({"replay", folder.at("run"), "--from", "4000"}, 2,
          "no update is in the range of episodes 4000 to the last");
  refused({"replay", folder.at("run"), "--from", "9", "--to", "4"}, 2, "--to");
}

TEST(Replay, DifferentUpdateIsFound) {
  const TemporaryFolder folder;
  run_json(recorded_run(folder.at("run"), {"--episodes", "20"}));
  {
    auto db = *record::RunWriter::open(folder.at("run"));
    record::UpdateRow forged = **db->log().update(20);
    forged.update = forged.policy_version = 21;
    forged.episodes = {};
    forged.advantages = {};
    forged.parameters_sha256 = std::string(64, 'a');
    ASSERT_TRUE(db->add_update(forged).ok());
    ASSERT_TRUE(db->commit().ok());
  }
  const Finished done = run({"replay", folder.at("run"), "--verify", "--json"});
  EXPECT_EQ(done.status, 4);
  const json replayed = json::parse(done.out);
  EXPECT_FALSE(replayed["identical"].get<bool>());
  EXPECT_EQ(replayed["first_different_update"], 21);
  EXPECT_THAT(done.err, HasSubstr("differs from the run"));
}

TEST(Replay, RunThatLearnedNothingIsReported) {
  const TemporaryFolder folder;
  run_json(recorded_run(folder.at("run"), {"--episodes", "8", "--set", "policy.method=random"}));
  const json replayed = run_json({"replay", folder.at("run"), "--json"});
  EXPECT_EQ(replayed["updates"], 0);
  EXPECT_TRUE(replayed["identical"].get<bool>());
}

TEST(Replay, RefusesOtherFoldersDamagedRunsAndRunsInProgress) {
  const TemporaryFolder folder;
  refused({"replay", folder.at("nothing"), "--verify"}, 2, "holds no run");
  run_json(recorded_run(folder.at("run"), {"--episodes", "20"}));
  std::filesystem::copy(folder.at("run"), folder.at("cut"), std::filesystem::copy_options::recursive);
  std::filesystem::resize_file(folder.at("cut") + "/run.db",
                               std::filesystem::file_size(folder.at("cut") + "/run.db") / 2);
  const auto cut = contents(folder.at("cut"));
  for (const char* more : {"--verify", "--re-measure=sim"})
    refused({"replay", folder.at("cut"), more}, 2, "run.db");
  refused({"run", "--resume", "--run-dir", folder.at("cut"), "--quiet"}, 2, "run.db");
  refused({"run", "--branch", folder.at("cut"), "--run-dir", folder.at("branch"), "--quiet"}, 2, "run.db");
  EXPECT_EQ(contents(folder.at("cut")), cut);
  EXPECT_FALSE(std::filesystem::exists(folder.at("branch")));

  std::vector<std::string> long_run = recorded_run(folder.at("going"), {"--budget", "60s"});
  std::erase(long_run, "--quiet");
  Process going{long_run};
  ASSERT_TRUE(going.wait_for_error_text("updates"));
  refused({"replay", folder.at("going")}, 2, "still being written");
  refused({"run", "--branch", folder.at("going"), "--run-dir", folder.at("branch"), "--quiet"}, 2,
          "still being written");
  going.send(SIGTERM);
  EXPECT_EQ(going.finish().status, 143);
  EXPECT_TRUE(run_json({"replay", folder.at("going"), "--json"})["identical"].get<bool>());
}

// Costs, readers and learners may change; what an older program recorded still gives the bits that it gave
// then. fixtures/runs/learned has every method, three formats of graphs, and machines of equal and of unlike
// devices.
TEST(Replay, OlderRunsOfEveryMethodGiveTheirBits) {
  const TemporaryFolder folder;
  std::set<std::string> methods;
  for (const auto& entry : std::filesystem::directory_iterator{shipped("tests/fixtures/runs/learned")}) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename();
    std::filesystem::copy(entry.path(), folder.at(name));
    const json replayed = run_json({"replay", folder.at(name), "--verify", "--json"});
    EXPECT_EQ(replayed["identical"], true) << name;
    EXPECT_EQ(replayed["episodes"], 20) << name;
    EXPECT_GE(replayed["updates"], 10) << name;
    methods.insert(name.substr(0, name.rfind('-')));
  }
  EXPECT_THAT(methods,
              ::testing::ElementsAre("colocrl", "hierarchical", "placeto", "placeto-simple-aggregator",
                                     "placeto-simple-partitioner", "random-grouping", "scheduler",
                                     "simple-planner", "spotlight", "sweep"));
}

// Resumed runs and branches learn on: their graph and machine are what the record has, also where the files
// are others today or gone.
TEST(Replay, ResumedRunsAndBranchesTakeGraphAndMachineFromTheRecord) {
  const TemporaryFolder folder;
  const std::string graph = folder.at("graph.json"), devices = folder.at("devices.toml");
  std::filesystem::copy(shipped("tests/fixtures/graphs/cifar10_cnn-bs128.json"), graph);
  std::filesystem::copy(shipped("configs/devices/placeto-2gpu.toml"), devices);
  const json recorded =
      run_json(recorded_run(folder.at("run"), {"--episodes", "10", "--set", "input.graph=" + graph, "--set",
                                               "input.devices=" + devices}));
  std::filesystem::copy(shipped("tests/fixtures/graphs/pipedream-alexnet.json"), graph,
                        std::filesystem::copy_options::overwrite_existing);
  std::filesystem::remove(devices);
  for (const char* episodes : {"20", "30"}) {  // The second one resumes a run that was resumed.
    const json resumed = run_json(
        {"run", "--resume", "--run-dir", folder.at("run"), "--episodes", episodes, "--quiet", "--json"});
    EXPECT_EQ(std::to_string(resumed["episodes"].get<int>()), episodes);
  }
  const json branch = run_json({"run", "--branch", folder.at("run"), "--run-dir", folder.at("branch"),
                                "--episodes", "10", "--quiet", "--json"});
  EXPECT_EQ(branch["lower_bound_s"], recorded["lower_bound_s"]);
  EXPECT_EQ(branch["baseline_step_time_s"], recorded["baseline_step_time_s"]);
  for (const char* run : {"run", "branch"})
    EXPECT_EQ(run_json({"replay", folder.at(run), "--verify", "--json"})["identical"], true) << run;

  // A branch of an older program's run, whose files are gone; and one that names another graph.
  std::filesystem::copy(shipped("tests/fixtures/runs/learned/hierarchical-hlo"), folder.at("older"));
  EXPECT_EQ(run_json({"run", "--branch", folder.at("older"), "--run-dir", folder.at("newer"), "--episodes",
                      "10", "--quiet", "--json"})["episodes"],
            10);
  const Bytes config = read_file(folder.at("newer") + "/config.toml").value();
  EXPECT_THAT((std::string{reinterpret_cast<const char*>(config.data()), config.size()}),
              HasSubstr("\ncosts = 1\n"))
      << "the version that the older program had";
  refused({"run", "--resume", "--run-dir", folder.at("run"), "--set", "input.graph=" + graph, "--quiet"}, 2,
          "was recorded with");
}

// Schema 3 kept no graphs.
TEST(Replay, OlderRunNeedsItsGraph) {
  const TemporaryFolder folder;
  const std::string directory = folder.at("run");
  std::filesystem::create_directories(directory);
  std::filesystem::copy(shipped("tests/fixtures/runs/schema3"), directory);
  const auto before = contents(directory);
  refused({"replay", directory, "--verify"}, 2, "has no recorded graph");
  // Its config names its files by relative paths.
  const Process::Where beside{.prefix = {"env", "-C", folder.path().string()}};
  std::filesystem::copy(shipped("tests/fixtures/graphs/cifar10_cnn-bs128.json"), folder.path());
  std::filesystem::copy(shipped("configs/devices/placeto-2gpu.toml"), folder.path());
  const Finished done = run({"replay", directory, "--verify", "--json"}, beside);
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(json::parse(done.out)["updates"], 12);
  EXPECT_EQ(contents(directory), before);
}

TEST(Remeasure, ReportsTheCorrelationAndRecordsItsMeasurements) {
  const TemporaryFolder folder;
  run_json(recorded_run(folder.at("run"), {"--episodes", "40", "--set", "policy.method=random"}));
  const json same = run_json({"replay", folder.at("run"), "--re-measure", "sim", "--count", "50", "--json"});
  EXPECT_EQ(same["session"], 1);
  EXPECT_EQ(same["count"], same["measured"]);
  EXPECT_DOUBLE_EQ(same["spearman"].get<double>(), 1);
  EXPECT_DOUBLE_EQ(same["kendall"].get<double>(), 1);
  EXPECT_DOUBLE_EQ(same["error"]["max"].get<double>(), 0);
  EXPECT_EQ(same["top5_overlap"], 5);
  const json other = run_json({"replay", folder.at("run"), "--re-measure", "sim", "--devices",
                               shipped("configs/devices/placeto-2gpu.toml"), "--json"});
  EXPECT_EQ(other["session"], 2);
  EXPECT_GT(other["error"]["mean"].get<double>(), 0);
  EXPECT_FALSE(other["worst"].empty());
  auto db = *record::RunReader::open(folder.at("run"), record::Reading::kInProgress);
  const auto sessions = db->remeasurements().sessions();
  ASSERT_EQ(sessions->size(), 2u);
  EXPECT_EQ(sessions->at(1).spearman, other["spearman"].get<double>());
  EXPECT_EQ(db->remeasurements().rows(1)->size(), same["measured"].get<std::size_t>());
  EXPECT_TRUE(db->verify().ok());
  db.reset();
  const auto before = contents(folder.at("run"));
  refused({"replay", folder.at("run"), "--re-measure", "abacus"}, 2, "executor 'abacus'");
  refused({"replay", folder.at("run"), "--re-measure", "sim", "--devices",
           shipped("configs/devices/hierarchical-8gpu.toml")},
          2, "devices");
  EXPECT_EQ(contents(folder.at("run")), before);
}

TEST(Remeasure, RefusesOptionsWithoutEffect) {
  const TemporaryFolder folder;
  run_json(recorded_run(folder.at("run"), {"--episodes", "10"}));
  const auto before = contents(folder.at("run"));
  refused({"replay", folder.at("run"), "--re-measure", "sim", "--count", "0"}, 2, "--count");
  refused({"replay", folder.at("run"), "--re-measure", "sim", "--speed", "2"}, 2, "--speed");
  refused({"replay", folder.at("run"), "--verify", "--count", "5"}, 2, "--re-measure");
  refused({"replay", folder.at("run"), "--from", "18446744073709551615"}, 2, "--from");
  refused({"replay", folder.at("run"), "--speed", "1e-300"}, 2, "--speed");
  EXPECT_EQ(contents(folder.at("run")), before);
}

TEST(LogDriven, GivesTheSameParametersWithoutMeasuring) {
  const TemporaryFolder folder;
  const std::vector<std::string> how{"--episodes",      "40", "--set", "run.deterministic=true", "--set",
                                     "executor.count=2"};
  const json recorded = run_json(recorded_run(folder.at("run"), how));
  std::vector<std::string> driven = how;
  driven.insert(driven.end(), {"--set", "executor.kind=replay", "--set", "executor.log=" + folder.at("run")});
  const json again = run_json(recorded_run(folder.at("again"), driven));
  EXPECT_EQ(again["parameters_sha256"], recorded["parameters_sha256"]);
  EXPECT_EQ(again["measurements"], recorded["measurements"]);
  auto db = *record::RunReader::open(folder.at("again"), record::Reading::kInProgress);
  EXPECT_EQ(db->log().measurements(1, 1)->front().executor_kind, "replay");
  // Another learner with the same log ends where the log ends.
  driven[1] = "1000";
  driven.insert(driven.end(), {"--set", "policy.learning_rate=0.02"});
  const json other = run_json(recorded_run(folder.at("other"), driven));
  EXPECT_EQ(other["episodes"], 40);
  EXPECT_NE(other["parameters_sha256"], recorded["parameters_sha256"]);
  EXPECT_EQ(other["best_step_time_s"], recorded["best_step_time_s"]);
}

TEST(LogDriven, RefusesAnUnusableLog) {
  const TemporaryFolder folder;
  run_json(recorded_run(folder.at("run"), {"--episodes", "10"}));
  const auto driven = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--set", "executor.kind=replay", "--set", "executor.log=" + folder.at("run")});
    return recorded_run(folder.at("new"), more);
  };
  refused(driven({"--set", "policy.groups=9"}), 2, "another shape");
  refused(driven({"--set", "policy.method=colocrl"}), 2, "another shape");
  refused(driven({"--set", "policy.placements=3"}), 2, "placements per episode");
  refused(driven({"--set", "input.devices=" + shipped("configs/devices/placeto-2gpu.toml")}), 2,
          "other devices");
  refused(driven({"--set", "reward.baseline=self-critic"}), 2, "self-critic");
  refused(recorded_run(folder.at("new"), {"--set", "executor.kind=replay"}), 2, "executor.log");
  refused(recorded_run(folder.at("new"), {"--set", "executor.log=" + folder.at("run")}), 2, "executor.log");
  EXPECT_FALSE(std::filesystem::exists(folder.at("new")));
}

TEST(Branch, StartsAtTheCheckpointAndRecordsItsParent) {
  const TemporaryFolder folder;
  run_json(recorded_run(folder.at("run"), {"--episodes", "40"}));
  const auto before = contents(folder.at("run"));
  const std::vector<std::string> branch{"run",       "--branch",          folder.at("run") + "@20",
                                        "--run-dir", folder.at("branch"), "--episodes",
                                        "15",        "--quiet",           "--json"};
  run_json(branch);
  EXPECT_EQ(contents(folder.at("run")), before);
  auto db = *record::RunReader::open(folder.at("branch"), record::Reading::kQuiet);
  auto parent = *record::RunReader::open(folder.at("run"), record::Reading::kQuiet);
  const json lineage = json::parse(db->header().facts()->parent);
  EXPECT_EQ(lineage["kind"], "branch");
  EXPECT_EQ(lineage["run_id"], parent->header().facts()->run_id);
  EXPECT_EQ(lineage["update"], 20);
  const auto theirs = **parent->checkpoints().latest(20);
  const auto first = **db->checkpoints().latest(0);
  EXPECT_EQ(first.sha256, theirs.sha256);
  EXPECT_EQ(first.optimizer, theirs.optimizer) << "its moments go along";
  EXPECT_NE(db->header().facts()->run_id, parent->header().facts()->run_id);
  db.reset();
  EXPECT_TRUE(run_json({"replay", folder.at("branch"), "--json"})["identical"].get<bool>());
  refused({"run", "--branch", folder.at("run") + "@21", "--run-dir", folder.at("none"), "--quiet"}, 2,
          "one of the updates 0, 10, 20, 30, 40");
  refused({"run", "--branch", folder.at("run"), "--set", "policy.hierarchical.hidden=9", "--run-dir",
           folder.at("none"), "--quiet"},
          2, "other sizes");
  EXPECT_FALSE(std::filesystem::exists(folder.at("none")));
}

// A policy that starts from the best heuristic keeps that start, whatever is compared later.
TEST(Resume, KeepsItsFirstHeuristic) {
  const TemporaryFolder folder;
  run_json(recorded_run(folder.at("run"), {"--episodes", "10", "--set", "run.starts=[\"best-heuristic\"]"}));
  run_json({"run", "--resume", "--run-dir", folder.at("run"), "--quiet", "--json", "--episodes", "20",
            "--set", "compare.methods=[\"single-cpu\"]"});
  EXPECT_TRUE(run_json({"replay", folder.at("run"), "--json"})["identical"].get<bool>());
}

TEST(Resume, IsRefusedWhileAQuietReaderIsThere) {
  const TemporaryFolder folder;
  run_json(recorded_run(folder.at("run"), {"--episodes", "10"}));
  const auto before = contents(folder.at("run"));
  auto reader = record::RunReader::open(folder.at("run"), record::Reading::kQuiet);
  ASSERT_TRUE(reader.ok());
  refused({"run", "--resume", "--run-dir", folder.at("run"), "--quiet", "--episodes", "20"}, 2, "being read");
  EXPECT_EQ(contents(folder.at("run")), before);
}

// The restarted head finds the database in use, and waits.
TEST(Resume, ReaderDoesNotEndARunWhoseHeadWasKilled) {
  const TemporaryFolder folder;
  std::vector<std::string> long_run = recorded_run(folder.at("run"), {"--budget", "60s"});
  std::erase(long_run, "--quiet");
  Process going{long_run};
  ASSERT_TRUE(going.wait_for_error_text("updates"));
  const pid_t head = head_of(folder.at("run"));
  ASSERT_GT(head, 0);
  ASSERT_EQ(::kill(head, SIGKILL), 0);
  // Between its end and the next head's first access no process has the folder.
  std::unique_ptr<record::RunReader> reader;
  for (int tries = 0; tries < 200'000 && reader == nullptr; ++tries)
    if (auto opened = record::RunReader::open(folder.at("run"), record::Reading::kQuiet))
      reader = *std::move(opened);
  if (reader == nullptr) GTEST_SKIP() << "the next head was faster";
  ASSERT_TRUE(wait_for_text(folder.at("run") + "/log/head", "being read"));
  reader.reset();
  ASSERT_TRUE(wait_for_text(folder.at("run") + "/log/head", "takes writes again"));
  going.send(SIGTERM);
  EXPECT_EQ(going.finish().status, 143);
  EXPECT_TRUE(run_json({"replay", folder.at("run"), "--json"})["identical"].get<bool>());
}

TEST(Trace, RefusedRunKeepsTheTraceOfTheRunningOne) {
  const TemporaryFolder folder;
  std::vector<std::string> long_run =
      recorded_run(folder.at("run"), {"--budget", "60s", "--set", "record.trace=true"});
  std::erase(long_run, "--quiet");
  Process going{long_run};
  ASSERT_TRUE(going.wait_for_error_text("updates"));
  refused(recorded_run(folder.at("run"), {"--trace", folder.at("t.json.gz")}), 2, "already has a run");
  refused({"run", "--resume", "--run-dir", folder.at("run"), "--quiet"}, 2, "being written");
  EXPECT_FALSE(std::filesystem::is_empty(folder.at("run") + "/trace"));
  going.send(SIGTERM);
  EXPECT_EQ(going.finish().status, 143);
  EXPECT_TRUE(std::filesystem::exists(folder.at("run") + "/trace.json.gz"));
}

TEST(Resume, RefusesToBecomeAnotherRun) {
  const TemporaryFolder folder;
  run_json(recorded_run(folder.at("run"), {"--episodes", "10"}));
  const auto before = contents(folder.at("run"));
  const auto resume = [&](const std::string& setting) {
    return std::vector<std::string>{"run",     "--resume", "--run-dir", folder.at("run"),
                                    "--quiet", "--set",    setting};
  };
  refused(resume("policy.learning_rate=0.5"), 2, "another policy.learning_rate");
  refused(resume("reward.transform=id"), 2, "another reward.transform");
  refused(resume("run.seed=9"), 2, "another run.seed");
  refused(resume("input.devices=" + shipped("configs/devices/placeto-2gpu.toml")), 2, "other devices");
  EXPECT_EQ(contents(folder.at("run")), before);
  const json further = run_json({"run", "--resume", "--run-dir", folder.at("run"), "--quiet", "--json",
                                 "--episodes", "30", "--set", "executor.count=1"});
  EXPECT_EQ(further["episodes"], 30);
  EXPECT_TRUE(run_json({"replay", folder.at("run"), "--json"})["identical"].get<bool>());
}

}  // namespace
}  // namespace emplace::testing

// Goal: a list of runs describes each run correctly, whatever else is in the folder, and changes no file.
// Method: one record of each kind, written by the test and listed repeatedly.
#include "launcher/session/run_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "record/run_writer.h"
#include "record/store/launch_lock.h"
#include "tests/system/process.h"

namespace emplace::launcher {
namespace {

using record::RunWriter;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kSecond_ns = 1'000'000'000;
constexpr std::int64_t kStarted_ns = 1'767'225'600 * kSecond_ns;  // 2026-01-01

/// One episode of one placement.
struct Drawn {
  double after_s, step_time_s;  ///< 0 s: not valid.
  std::string graph = "hash-a";
  MeasurementLabel label = MeasurementLabel::kSimulated;
};

class RunList : public ::testing::Test {
 protected:
  std::filesystem::path at(const std::string& name) const { return folder_.at(name); }
  std::vector<ListedRun> list() const {
    const std::vector<std::string> paths{folder_.path().string()};
    auto runs = list_runs(paths);
    EXPECT_TRUE(runs.ok());
    return runs ? *std::move(runs) : std::vector<ListedRun>{};
  }
  ListedRun only() const {
    const std::vector<ListedRun> runs = list();
    EXPECT_THAT(runs, SizeIs(1));
    return runs.empty() ? ListedRun{} : runs.front();
  }
  static std::vector<std::string> names(const std::vector<ListedRun>& runs) {
    std::vector<std::string> names;
    for (const ListedRun& run : runs) names.push_back(run.name);
    return names;
  }

  /// Writes a record; keeps it open for writing while the result exists.
  std::unique_ptr<RunWriter> record_run(const std::string& name, const std::vector<Drawn>& episodes,
                                        const std::string& config = kConfig, double start_s = 0) {
    record::RunFacts facts;
    facts.method = "hierarchical";
    facts.graph = "nmt", facts.graph_sha256 = "hash-a";
    facts.config_toml = config;
    facts.host = "rack7";
    facts.started_wall_ns = kStarted_ns + static_cast<std::int64_t>(start_s * kSecond_ns);
    const auto graph = [](const char* sha256, const char* called, double bound_s) {
      return record::GraphRow{sha256,       called, "",      4,     Bytes(50, std::byte{9}),
                              "[[device]]", 0,      bound_s, "work"};
    };
    const auto heuristic = [](const char* sha256, const char* method, bool valid, double step_time_s) {
      return record::HeuristicRow{sha256, method, true, valid, step_time_s, 0,
                                  0,      {3, 4}, 1,    0.01,  "",          Bytes(4)};
    };
    std::filesystem::create_directories(at(name).parent_path());
    auto db = RunWriter::create(
        at(name), facts, {graph("hash-a", "nmt", 0.3), graph("hash-b", "cnn", 0.2)},
        {heuristic("hash-a", "expert", true, 0.9), heuristic("hash-a", "scotch", true, 0.5),
         heuristic("hash-a", "heft", false, 0.1), heuristic("hash-b", "expert", true, 0.4)});
    EXPECT_TRUE(db.ok());
    std::uint64_t seq = 0;
    for (const Drawn& drawn : episodes) {
      record::MeasurementRow row;
      row.placement_id = row.episode = seq++;
      row.valid = drawn.step_time_s > 0;
      row.step_time_s = drawn.step_time_s;
      row.label = drawn.label;
      row.executor = "executor/0";
      record::EpisodeRow episode{seq, seq - 1, 0, 3, 1, drawn.graph, Bytes(4), Bytes(4), seq - 1};
      episode.wall_ns = facts.started_wall_ns + static_cast<std::int64_t>(drawn.after_s * kSecond_ns);
      EXPECT_TRUE((*db)->add_episode(episode, {row}).ok());
    }
    EXPECT_TRUE((*db)->commit().ok());
    return *std::move(db);
  }
  /// Content of every file below the folder.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator{folder_.path()})
      if (entry.is_regular_file()) {
        const Bytes bytes = *read_file(entry.path());
        all[entry.path().string()] = std::string{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
      }
    return all;
  }

  static constexpr const char* kConfig =
      "[run]\nbudget = \"10s\"\n[input]\ndevices = \"/there/two_k40s.toml\"\n[policy]\nmethod = "
      "\"spotlight\"\n";
  const testing::TemporaryFolder folder_;
};

TEST_F(RunList, FindsRunsInAFolderAndOneLevelDeeper) {
  for (const char* name : {"b", "a", "sweep/seed=1", "sweep/too/deep", "b/from-best-heuristic"})
    (void)record_run(name, {});
  folder_.file("a file", "");
  std::filesystem::create_directories(at("empty"));
  EXPECT_THAT(names(list()), ElementsAre("a", "b", "sweep/seed=1"));
  const std::vector<std::string> some{at("b").string(), at("sweep").string()};
  EXPECT_THAT(names(*list_runs(some)),
              ElementsAre(at("b").string(), at("sweep/seed=1").string(), at("sweep/too/deep").string()));
  const std::vector<std::string> none{at("nowhere").string()};
  ASSERT_FALSE(list_runs(none).ok());
  EXPECT_THAT(list_runs(none).error().context, HasSubstr("nowhere: is no folder"));
}

TEST_F(RunList, ShowsTheFactsOfARun) {
  (void)record_run("a", {{1, 0.6}, {2, 0}, {3, 0.45, "hash-b"}, {4, 0.4}, {9.5, 0.4}});
  const ListedRun run = only();
  EXPECT_EQ(run.state, ListedState::kEnded);
  EXPECT_EQ(run.method, "spotlight");
  EXPECT_EQ(run.machine, "two_k40s");
  EXPECT_EQ(run.host, "rack7");
  EXPECT_EQ(run.started, Nanos{kStarted_ns});
  EXPECT_EQ(run.measurements, 5u);
  EXPECT_DOUBLE_EQ(run.wall_s, 9.5);
  ASSERT_THAT(run.graphs, SizeIs(2));
  EXPECT_EQ(run.graphs[0].name, "nmt");
  EXPECT_EQ(run.graphs[0].best_s, 0.4);
  EXPECT_DOUBLE_EQ(run.graphs[0].best_after_s, 4) << "when it was found first";
  EXPECT_EQ(run.graphs[0].heuristic, "scotch") << "heft is faster and does not fit";
  EXPECT_EQ(run.graphs[0].heuristic_s, 0.5);
  EXPECT_EQ(run.graphs[0].bound_s, 0.3);
  EXPECT_EQ(run.graphs[1].best_s, 0.45);
  EXPECT_EQ(run.graphs[1].heuristic_s, 0.4);
}

TEST_F(RunList, ShowsThePolicyOfEachStartThatLearned) {
  const std::string config =
      "[run]\nstarts = [\"scratch\", \"best-heuristic\"]\n[policy]\nmethod = \"placeto\"\n";
  const auto learn = [](record::RunWriter& db, std::uint64_t updates, double gradient_norm) {
    for (std::uint64_t update = 1; update <= updates; ++update) {
      record::UpdateRow row;
      row.update = update, row.learning_rate = 0.1, row.gradient_norm = gradient_norm;
      row.entropy = gradient_norm > 0 ? 0.6931 : 0;
      EXPECT_TRUE(db.add_update(row).ok());
    }
    EXPECT_TRUE(db.commit().ok());
  };
  auto first = record_run("a", {{1, 0.6}}, config);
  EXPECT_THAT(only().policies, IsEmpty()) << "no update yet";
  learn(*first, 20, 3);
  first.reset();
  auto second = record_run("a/from-best-heuristic", {{1, 0.45}}, config, 12);
  learn(*second, 60, 0);
  second.reset();
  const ListedRun run = only();
  ASSERT_THAT(run.policies, SizeIs(2));
  EXPECT_EQ(run.policies[0].start, "scratch");
  EXPECT_EQ(run.policies[0].learning.updates, 20u);
  EXPECT_THAT(run.policies[0].learning.entropy, ::testing::Each(0.6931));
  EXPECT_FALSE(run.policies[0].learning.saturation);
  EXPECT_EQ(run.policies[1].start, "best-heuristic");
  EXPECT_THAT(run.policies[1].learning.entropy, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(
      run.policies[1].learning.warning,
      HasSubstr("the policy is saturated: the gradient was below 1e-10 in updates 1 to 60, so it learns "
                "nothing more; "));
  EXPECT_THAT(run.policies[1].learning.warning, HasSubstr("policy.placeto.means")) << "a key of its method";
  const auto row = page_row(run);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->entropy, "0.69 0.69 0.69 0.69 0.69 0.69 0.69 0.69 0.69 0.69 | 0 0 0 0 0 0 0 0 0 0");
  EXPECT_EQ(row->warning, run.policies[1].learning.warning);
}

TEST_F(RunList, AddsUpTheStartsOfARun) {
  const std::string config = "[run]\nbudget = \"20s\"\nstarts = [\"scratch\", \"best-heuristic\"]\n";
  (void)record_run("a", {{1, 0.6}, {9.9, 0.5}}, config);
  EXPECT_EQ(only().state, ListedState::kInterrupted) << "its second start is missing";
  (void)record_run("a/from-best-heuristic", {{1, 0.45}, {2, 0.7}}, config, 12);
  EXPECT_EQ(only().state, ListedState::kInterrupted) << "its second start has ended early";
  std::filesystem::remove_all(at("a/from-best-heuristic"));
  (void)record_run("a/from-best-heuristic", {{1, 0.45}, {9.5, 0.7}}, config, 12);
  const ListedRun run = only();
  EXPECT_EQ(run.state, ListedState::kEnded);
  EXPECT_EQ(run.measurements, 4u);
  EXPECT_EQ(run.graphs[0].best_s, 0.45);
  EXPECT_DOUBLE_EQ(run.graphs[0].best_after_s, 13);
  EXPECT_DOUBLE_EQ(run.wall_s, 21.5);
  const auto row = page_row(run);
  ASSERT_TRUE(row.ok());
  ASSERT_THAT(row->curve, SizeIs(4));
  EXPECT_DOUBLE_EQ(row->curve[2].seconds, 13);
  EXPECT_EQ(row->curve[2].best_s, 0.45);
  EXPECT_DOUBLE_EQ(row->curve[3].seconds, 21.5);
  EXPECT_EQ(row->curve[3].best_s, 0.45);
}

TEST_F(RunList, KnowsWhetherARunHasEnded) {
  {
    const auto writes = record_run("a", {{1, 0.5}});
    EXPECT_EQ(only().state, ListedState::kInProgress);
  }
  EXPECT_EQ(only().state, ListedState::kInterrupted) << "after a tenth of its budget";
  {
    const auto lock = record::LaunchLock::take(at("a"));
    ASSERT_TRUE(lock.ok());
    EXPECT_EQ(only().state, ListedState::kInProgress) << "between two starts";
    EXPECT_TRUE(lock->held()) << "listing leaves the lock";
  }
  std::filesystem::remove_all(at("a"));
  (void)record_run("a", {{1, 0.5}, {9.8, 0.5}});
  EXPECT_EQ(only().state, ListedState::kEnded);
  folder_.file("a/lock", "");
  EXPECT_EQ(only().state, ListedState::kInterrupted) << "its launcher was killed";
  for (const auto& [limits, state] : std::vector<std::pair<std::string, ListedState>>{
           {"budget = \"0s\"\nepisodes = 2\n", ListedState::kEnded},
           {"budget = \"0s\"\nepisodes = 3\n", ListedState::kInterrupted},
           {"budget = \"0s\"\nevaluations = 2\n", ListedState::kEnded},
           {"budget = \"0s\"\n", ListedState::kEnded},
           {"budget = \"100s\"\nepisodes = 2\n", ListedState::kEnded}}) {
    std::filesystem::remove_all(at("a"));
    (void)record_run("a", {{1, 0.5}, {2, 0.5}}, "[run]\n" + limits);
    EXPECT_EQ(only().state, state) << limits;
  }
}

TEST_F(RunList, DamagedRunsTakeOneLineAndOthersAreListed) {
  (void)record_run("good", {{1, 0.5}});
  std::filesystem::create_directories(at("garbage"));
  std::filesystem::create_directories(at("empty"));
  folder_.file("garbage/run.db", std::string(8'192, 'x'));
  folder_.file("empty/run.db", "");
  (void)record_run("cut", {{1, 0.5}});
  std::filesystem::resize_file(at("cut/run.db"), 5'000);
  (void)record_run("config", {{1, 0.5}}, "no toml");
  std::vector<ListedRun> runs = list();
  ASSERT_TRUE(sort_runs(runs, "name").ok());
  EXPECT_THAT(names(runs), ElementsAre("good", "config", "cut", "empty", "garbage"));
  for (std::size_t i = 1; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].state, ListedState::kUnreadable);
    EXPECT_NE(runs[i].why, "");
    EXPECT_EQ(runs[i].why.find('\n'), std::string::npos);
    const auto row = page_row(runs[i]);
    ASSERT_TRUE(row.ok());
    EXPECT_THAT(row->state, HasSubstr("cannot be read: "));
  }
}

TEST_F(RunList, ChangesNoFile) {
  (void)record_run("a", {{1, 0.5}, {2, 0.4}});
  const auto writes = record_run("b", {{1, 0.5}});  // The run is in progress.
  std::filesystem::copy(at("b"), at("killed"), std::filesystem::copy_options::recursive);
  const auto before = files();
  for (const ListedRun& run : list()) EXPECT_TRUE(page_row(run).ok()) << run.name;
  auto after = files();
  // Readers of a write-ahead log share an index beside it (SQLite), which contains nothing of the run.
  for (const char* name : {"b", "killed"}) after[at(name) / "run.db-shm"] = "";
  auto expected = before;
  for (const char* name : {"b", "killed"}) expected[at(name) / "run.db-shm"] = "";
  EXPECT_EQ(after, expected);
}

TEST_F(RunList, MeasuredTimesAreNotComparedWithSimulatedOnes) {
  (void)record_run("a", {{1, 0.1, "hash-a", MeasurementLabel::kMeasured}});
  const ListedRun run = only();
  EXPECT_EQ(run.graphs[0].best_s, 0.1);
  EXPECT_EQ(run.graphs[0].heuristic_s, 0);
  EXPECT_EQ(run.graphs[0].heuristic, "");
  EXPECT_EQ(run.graphs[0].bound_s, 0);
}

TEST_F(RunList, SortsByAnyKeyWithUnknownNumbersLast) {
  (void)record_run("a", {{1, 0.4}, {5, 0.35}}, kConfig, 10);
  (void)record_run("b", {{1, 0}}, kConfig, 30);
  (void)record_run("c", {{2, 0.3}, {3, 0.5}, {4, 0.6}}, "[run]\nseed = 2\n[policy]\nmethod = \"colocrl\"\n",
                   20);
  std::vector<ListedRun> runs = list();
  for (const auto& [key, order] :
       std::map<std::string, std::vector<std::string>>{{"time", {"b", "c", "a"}},
                                                       {"name", {"a", "b", "c"}},
                                                       {"method", {"c", "a", "b"}},
                                                       {"measurements", {"c", "a", "b"}},
                                                       {"best", {"c", "a", "b"}},
                                                       {"heuristic", {"c", "a", "b"}},
                                                       {"bound", {"c", "a", "b"}},
                                                       {"after", {"c", "a", "b"}}}) {
    ASSERT_TRUE(sort_runs(runs, "name").ok());
    ASSERT_TRUE(sort_runs(runs, key).ok()) << key;
    EXPECT_EQ(names(runs), order) << key;
  }
  const auto unknown = sort_runs(runs, "bset");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().context, HasSubstr("did you mean 'best'?"));
  EXPECT_THAT(differing_keys_of(runs),
              ElementsAre("input.devices", "policy.method", "run.budget", "run.seed"));
  EXPECT_THAT(differing_keys_of({}), IsEmpty());
}

TEST_F(RunList, ReadsRunsOfOlderSchemas) {
  for (const char* schema : {"schema3", "schema4"}) {
    const std::string run = testing::shipped("tests/fixtures/runs/") + schema;
    std::filesystem::copy(run, at(schema), std::filesystem::copy_options::recursive);
  }
  const std::vector<ListedRun> runs = list();
  ASSERT_THAT(runs, SizeIs(2));
  for (const ListedRun& run : runs) {
    EXPECT_NE(run.state, ListedState::kUnreadable) << run.why;
    EXPECT_GT(run.measurements, 0u);
    EXPECT_GT(run.graphs[0].best_s, 0);
  }
}

}  // namespace
}  // namespace emplace::launcher

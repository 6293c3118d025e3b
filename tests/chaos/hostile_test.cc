// Goal: nothing that an executor's key can do ends a run or damages its record. Method: the real program with
// two good executors and a head on tcp with keys; beside them, in this process, hostile executors with an
// executor's key (hostile_executor.h), a group of them in each run. Afterwards the record is checked for
// everything that holds for any run, and replayed.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "record/run_reader.h"
#include "tests/chaos/cluster_run.h"
#include "tests/chaos/history.h"
#include "tests/chaos/hostile_executor.h"
#include "tests/system/process.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

constexpr Seconds kHostileDeadline{60};
constexpr std::uint64_t kFirstHostile = 777'000;
constexpr std::uint64_t kEpisodes = 150;

std::vector<std::string> run_arguments(const TemporaryFolder& folder,
                                       const std::vector<std::string>& settings = {}) {
  const std::string keys = folder.at("keys");
  const std::string cluster =
      folder.file("cluster.toml", "[head]\nendpoint = \"tcp://127.0.0.1:*\"\nkey = \"" + keys +
                                      "/head.key\"\nallowed = \"" + keys + "/allowed.toml\"\n");
  std::vector<std::string> arguments{"run",       shipped("configs/quickstart.toml"),
                                     "--cluster", cluster,
                                     "--run-dir", folder.at("run"),
                                     "--json",    "--budget",
                                     "600s"};
  for (const std::string& setting :
       {"input.graph=" + shipped("tests/fixtures/graphs/cifar10_cnn-bs128.json"),
        std::string{"run.starts=[\"scratch\"]"}, std::string{"policy.groups=8"},
        std::string{"policy.hierarchical.hidden=8"}, std::string{"executor.kind=fake"},
        std::string{"executor.delay=2ms"}, std::string{"executor.count=2"},
        "run.episodes=" + std::to_string(kEpisodes), std::string{"compare.methods=[\"expert\"]"}})
    arguments.insert(arguments.end(), {"--set", setting});
  for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
  return arguments;
}

std::string listening_at(const std::string& text) {
  constexpr std::string_view kPrefix = "the head listens at ";
  const std::size_t from = text.rfind(kPrefix) + kPrefix.size();
  return text.substr(from, text.find_first_of(" \n", from) - from);
}

/// Checks that no text output of a run contains bytes that control a terminal.
void expect_printable(const std::string& text) {
  for (const char c : text) ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n') << text;
}

std::string graph_of(const std::string& directory) {
  const auto db = record::RunReader::open(directory, record::Reading::kQuietOrInProgress);
  EXPECT_TRUE(db.ok()) << db.error().context;
  return db ? (*db)->header().facts()->graph_sha256 : "";
}

struct Measured {
  std::uint64_t by_good = 0, by_hostile = 0;
};
Measured measured_in(record::RunLog log) {
  Measured measured;
  const auto rows = log.measurements(1, 1'000'000);
  EXPECT_TRUE(rows.ok());
  for (const record::MeasurementRow& row : *rows)
    ++(row.executor == "executor/0" || row.executor == "executor/1" ? measured.by_good : measured.by_hostile);
  return measured;
}

/// Checks that the simulator gives the summary's step time for its placement.
void expect_real_best(const TemporaryFolder& folder, const json& summary, record::RunResults results) {
  const auto best = results.best();
  ASSERT_TRUE(best.ok() && *best);
  const Finished again = run({"evaluate", shipped("tests/fixtures/graphs/cifar10_cnn-bs128.json"),
                              folder.at("run") + "/best.placement.json", "--devices",
                              shipped("configs/devices/quickstart.toml"), "--json"});
  ASSERT_EQ(again.status, 0) << again.err;
  const double step_time_s = json::parse(again.out)["step_time_s"].get<double>();
  EXPECT_DOUBLE_EQ(step_time_s, (**best).step_time_s);
  EXPECT_DOUBLE_EQ(step_time_s, summary["best_step_time_s"].get<double>());
}

void expect_sound(const TemporaryFolder& folder, const Finished& done) {
  ASSERT_EQ(done.status, 0) << done.err;
  const std::string directory = folder.at("run");
  expect_printable(done.err);
  const json summary = json::parse(done.out, nullptr, false);
  ASSERT_TRUE(summary.is_object()) << done.out;
  EXPECT_GE(summary["episodes"], kEpisodes);
  EXPECT_EQ(summary["duplicated"], 0);
  const json leases = summary["leases"];
  EXPECT_EQ(leases["issued"], leases["counted"].get<std::uint64_t>() + leases["open"].get<std::uint64_t>() +
                                  leases["expired"].get<std::uint64_t>() +
                                  leases["refused"].get<std::uint64_t>());
  const History history = check_history(directory, 2);
  EXPECT_EQ(history.violations, std::vector<std::string>{});
  EXPECT_EQ(history.missing_episodes, 0u);
  EXPECT_EQ(history.consumed, history.episodes);
  const auto db = record::RunReader::open(directory, record::Reading::kInProgress);
  ASSERT_TRUE(db.ok()) << db.error().context;
  const Measured measured = measured_in((*db)->log());
  EXPECT_GE(measured.by_good, 4 * measured.by_hostile) << "the good ones do the work";
  expect_real_best(folder, summary, (*db)->results());
  const Finished replayed = run({"replay", directory, "--verify", "--json"});
  ASSERT_EQ(replayed.status, 0) << replayed.err;
  EXPECT_EQ(json::parse(replayed.out)["identical"], true);
}

/// A run has every kGroups-th of the misbehaviours, from the number of its group on.
constexpr std::size_t kGroups = 3;
class HostileExecutors : public ::testing::TestWithParam<std::size_t> {};

/// Folder with the head's key and an executor's key.
std::string make_keys(const TemporaryFolder& folder) {
  const std::string keys = folder.at("keys");
  EXPECT_EQ(run({"keygen", keys}).status, 0);
  EXPECT_EQ(run({"keygen", keys, "--role", "executor", "--name", "rack7"}).status, 0);
  return keys;
}

TEST_P(HostileExecutors, EndNoRunAndDamageNoRecord) {
  const TemporaryFolder folder;
  const std::string keys = make_keys(folder);
  Process launcher{run_arguments(folder)};
  ASSERT_TRUE(launcher.wait_for_error_text("the head listens at ")) << launcher.finish().err;
  const std::string head = listening_at(launcher.err());
  std::vector<const Misbehaviour*> ways;
  for (std::size_t i = GetParam(); i < misbehaviours().size(); i += kGroups)
    ways.push_back(&misbehaviours()[i]);
  std::vector<std::string> idle;
  Finished done;
  {
    const HostileNode hostile{head, keys + "/rack7.key", graph_of(folder.at("run")), ways, kFirstHostile};
    done = launcher.finish();
    idle = hostile.idle();
  }
  EXPECT_EQ(idle, std::vector<std::string>{}) << "each of them has done its worst";
  expect_sound(folder, done);
}

INSTANTIATE_TEST_SUITE_P(Group, HostileExecutors, ::testing::Range<std::size_t>(0, kGroups));

// The kind of the run's own executor does not count here, so only the hostile one does.
TEST(HostileExecutor, EndsARunWithoutAnHonestExecutorWithTheCause) {
  const TemporaryFolder folder;
  const std::string keys = make_keys(folder);
  Process launcher{run_arguments(folder, {"executor.kind=sim", "executor.counts=[\"fake\"]"})};
  ASSERT_TRUE(launcher.wait_for_error_text("the head listens at ")) << launcher.finish().err;
  const auto& all = misbehaviours();
  const auto error =
      std::find_if(all.begin(), all.end(), [](const auto& one) { return one.name == "an error"; });
  ASSERT_NE(error, all.end());
  const HostileNode hostile{listening_at(launcher.err()),
                            keys + "/rack7.key",
                            graph_of(folder.at("run")),
                            {&*error},
                            kFirstHostile};
  const Finished done = launcher.finish();
  EXPECT_EQ(done.status, 4) << done.err;
  expect_printable(done.err);
  const std::size_t at = done.err.find("error: executor/777000 cannot measure: \\x1b[31mboo\\n<script>");
  ASSERT_NE(at, std::string::npos) << done.err;
  EXPECT_EQ(done.err.find('\n', at), done.err.size() - 1) << "one line, the last";
}

TEST(HostileExecutor, HasAtLeastFortyMisbehaviours) {
  std::set<std::string> names;
  for (const Misbehaviour& one : misbehaviours()) names.insert(one.name);
  EXPECT_EQ(names.size(), misbehaviours().size());
  EXPECT_GE(names.size(), 40u);
}

}  // namespace
}  // namespace emplace::testing

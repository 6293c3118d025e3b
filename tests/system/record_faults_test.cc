// Goal: faults of a record during its run are noticed within seconds, lose nothing that can be saved, and
// change no files of others. Method: real runs, whose files are deleted, moved and damaged from outside.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/rng.h"
#include "tests/system/process.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

constexpr double kNoticed_s = 5;

class RecordFaults : public ::testing::Test {
 protected:
  std::vector<std::string> run_of(const std::string& name, std::vector<std::string> more) const {
    more.insert(more.begin(), {"--set", "run.starts=[\"scratch\"]", "--set", "executor.kind=fake", "--set",
                               "executor.delay=5ms", "--json"});
    return small_run(folder_.at(name), more);
  }
  /// Waits until this number of episodes is on disk, according to head.seq.
  void wait_for_episodes(const std::string& name, std::uint64_t episodes) const {
    const Nanos deadline = clock_.now() + std::chrono::seconds{60};
    std::uint64_t there = 0;
    while (there < episodes && clock_.now() < deadline) {
      std::ifstream head{folder_.at(name) + "/head.seq"};
      if (!(head >> there)) there = 0;
    }
    ASSERT_GE(there, episodes);
  }
  double since(Nanos started) const { return std::chrono::duration<double>(clock_.now() - started).count(); }
  static bool is_one_error(const std::string& err, const std::string& what) {
    const std::size_t line = err.rfind("error: ");
    return line != std::string::npos && err.find(what, line) != std::string::npos &&
           err.find('\n', line) == err.size() - 1;
  }

  const TemporaryFolder folder_;
  const SystemClock clock_;
};

TEST_F(RecordFaults, DeletedDatabaseIsRewrittenAndNothingIsLost) {
  Process process{run_of("run", {"--episodes", "120"})};
  wait_for_episodes("run", 20);
  std::filesystem::remove(folder_.at("run") + "/run.db");
  wait_for_episodes("run", 80);
  const Finished done = process.finish();
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_GE(json::parse(done.out)["episodes"].get<int>(), 120);
  const Finished verified = run({"replay", folder_.at("run"), "--verify", "--json"});
  ASSERT_EQ(verified.status, 0) << verified.err;
  EXPECT_TRUE(json::parse(verified.out)["identical"].get<bool>());
}

TEST_F(RecordFaults, DeletedFolderEndsTheRunAndTheNextRunIsWhole) {
  Process first{run_of("run", {"--episodes", "100000"})};
  wait_for_episodes("run", 10);
  std::filesystem::remove_all(folder_.at("run"));
  const Nanos gone = clock_.now();
  const Finished second = run(run_of("run", {"--episodes", "40"}));
  const Finished done = first.finish();
  EXPECT_EQ(done.status, 4) << done.err;
  EXPECT_TRUE(is_one_error(done.err, "the run folder was deleted during the run")) << done.err;
  EXPECT_LT(since(gone), 40) << "the second run's time included";
  ASSERT_EQ(second.status, 0) << second.err;
  const Finished verified = run({"replay", folder_.at("run"), "--verify"});
  EXPECT_EQ(verified.status, 0) << "head.seq is the second run's: " << verified.err;
}

TEST_F(RecordFaults, DamageEndsTheRunSoonAndEarlierEpisodesAreSalvaged) {
  Process process{run_of("run", {"--episodes", "100000"})};
  wait_for_episodes("run", 40);
  Rng rng{3, Purpose::kTest, 1};
  for (const char* name : {"/run.db", "/run.db-wal"}) {  // Each row is in one of them.
    const std::string path = folder_.at("run") + name;
    std::fstream file{path, std::ios::in | std::ios::out | std::ios::binary};
    const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path));
    for (std::streamoff page = size / 2; page + 4096 <= size; page += 4096) {
      file.seekp(page + rng.below(4096 - 512));
      for (int i = 0; i < 512; ++i) file.put(static_cast<char>(rng.below(256)));
    }
  }
  const Nanos damaged = clock_.now();
  const Finished done = process.finish();
  EXPECT_LT(since(damaged), kNoticed_s);
  ASSERT_EQ(done.status, 4) << done.err;
  EXPECT_TRUE(is_one_error(done.err, "damaged")) << done.err;
  EXPECT_NE(done.err.find("--salvage DIR"), std::string::npos) << "the cure";
  EXPECT_EQ(run({"replay", folder_.at("run"), "--verify"}).status, 2);
  const Finished salvaged = run({"replay", folder_.at("run"), "--salvage", folder_.at("saved"), "--json"});
  ASSERT_EQ(salvaged.status, 0) << salvaged.err;
  const json found = json::parse(salvaged.out);
  EXPECT_FALSE(found["whole"].get<bool>());
  EXPECT_GT(found["acknowledged"].get<int>(), 0);
  EXPECT_FALSE(found["missing"].empty());
  EXPECT_EQ(run({"report", folder_.at("saved"), "-o", folder_.at("page.html")}).status, 0);
  const Finished resumed = run({"run", "--resume", "--run-dir", folder_.at("saved"), "--set",
                                "run.episodes=" + std::to_string(found["episodes"].get<int>() + 20)});
  EXPECT_EQ(resumed.status, 0) << "it continues from there: " << resumed.err;
}

TEST_F(RecordFaults, MovedFolderLosesNothingWhenItReturns) {
  Process process{run_of("run", {"--episodes", "150"})};
  wait_for_episodes("run", 20);
  std::filesystem::rename(folder_.at("run"), folder_.at("elsewhere"));
  ASSERT_TRUE(process.wait_for_error_text("waiting for the disk")) << process.err();
  std::filesystem::rename(folder_.at("elsewhere"), folder_.at("run"));
  const Finished done = process.finish();
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(run({"replay", folder_.at("run"), "--verify"}).status, 0);
}

TEST_F(RecordFaults, StartsInOneDirectoryMakeOneRun) {
  Process first{run_of("run", {"--episodes", "60"})};
  // As soon as the first run has its folder, before it has its heuristics.
  const Nanos deadline = clock_.now() + std::chrono::seconds{20};
  while (!std::filesystem::exists(folder_.at("run") + "/lock") && clock_.now() < deadline) {
  }
  const Finished second = run(run_of("run", {"--episodes", "60", "--set", "run.seed=77"}));
  EXPECT_EQ(second.status, 2);
  // On a busy machine the first run may have its record by then.
  EXPECT_TRUE(is_one_error(second.err, "is being written by another emplace") ||
              is_one_error(second.err, "already has a run"))
      << second.err;
  ASSERT_EQ(first.finish().status, 0);
  std::ifstream file{folder_.at("run") + "/config.toml"};
  const std::string config{std::istreambuf_iterator<char>{file}, {}};
  EXPECT_EQ(config.find("seed = 77"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_.at("run") + "/lock"));
}

TEST_F(RecordFaults, SharedFolderStaysShared) {
  std::filesystem::create_directory(folder_.at("run"));
  constexpr auto kShared = std::filesystem::perms{01777};
  std::filesystem::permissions(folder_.at("run"), kShared);
  Process process{run_of("run", {"--episodes", "60"})};
  wait_for_episodes("run", 5);
  EXPECT_EQ(run({"ps", folder_.at("run"), "--json"}).status, 0) << "its socket is in a private folder";
  const Finished done = process.finish();
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(std::filesystem::status(folder_.at("run")).permissions(), kShared);
  EXPECT_FALSE(std::filesystem::exists(folder_.at("run") + "/private"));
}

TEST_F(RecordFaults, ImpossibleSalvageIsRefusedInOneLine) {
  for (const auto& [arguments, what] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"replay", folder_.at("nothing"), "--salvage", folder_.at("saved")}, "holds no run"},
           {{"replay", folder_.at("nothing"), "--salvage", folder_.at("saved"), "--verify"},
            "--salvage: conflicts with the other options"}}) {
    const Finished refused = run(arguments);
    EXPECT_EQ(refused.status, 2);
    EXPECT_TRUE(is_one_error(refused.err, what)) << refused.err;
  }
}

}  // namespace
}  // namespace emplace::testing

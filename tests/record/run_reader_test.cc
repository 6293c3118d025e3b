// Goal: a reader of a run sees what was committed, changes no file, and refuses what this program did not
// write. Method: a real database on disk, changed by another connection.
#include "record/run_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/record/recorded_run.h"

namespace emplace::record {
namespace {

class RunReaderTest : public RecordedRun {};

TEST_F(RunReaderTest, ReadersSeeCommitsDuringTheRun) {
  auto db = *RunWriter::create(directory_, {});
  fill(*db, 1);
  auto reader = *RunReader::open(directory_, Reading::kInProgress);
  EXPECT_EQ(reader->results().counters()->episodes, 1u);
  ASSERT_TRUE(db->add_episode(episode(2), measurements(2)).ok());
  EXPECT_EQ(reader->results().counters()->episodes, 1u);
  ASSERT_TRUE(db->commit().ok());
  EXPECT_EQ(reader->results().counters()->episodes, 2u);
}

TEST_F(RunReaderTest, QuietReadersChangeNoFile) {
  make_whole_run();
  const auto before = files();
  EXPECT_FALSE(before.contains("run.db-wal"));
  {
    auto reader = *RunReader::open(directory_, Reading::kQuiet);
    EXPECT_NE(all_of(*reader), "");
    EXPECT_TRUE(reader->verify().ok());
  }
  EXPECT_EQ(files(), before);
}

TEST_F(RunReaderTest, ReturnsTheBestOfEachGraph) {
  // Equal step times too; the second placement of each episode is the valid one.
  const std::vector<double> times{0.5, 0.25, 0.75, 0.25, 0.125, 0.5, 0.75, 0.125, 0.25};
  for (const std::uint64_t graphs : {1u, 3u}) {
    const std::filesystem::path directory = directory_ / std::to_string(graphs);
    auto db = *RunWriter::create(directory, {});
    std::map<std::string, std::vector<std::pair<double, std::uint64_t>>> found;
    for (std::uint64_t seq = 1; seq <= times.size(); ++seq) {
      EpisodeRow row = episode(seq);
      row.graph_sha256 = "graph" + std::to_string(seq % graphs);
      row.wall_ns = static_cast<std::int64_t>(100 * seq);
      found[row.graph_sha256].emplace_back(times[seq - 1], seq);
      ASSERT_TRUE(db->add_episode(row, measurements(seq, times[seq - 1])).ok());
    }
    ASSERT_TRUE(db->commit().ok());
    const auto reader = *RunReader::open(directory, Reading::kInProgress);
    const auto check = [&](const std::string& graph, const std::pair<double, std::uint64_t>& wanted) {
      const auto best = **reader->results().best(graph);
      EXPECT_EQ(best.step_time_s, wanted.first) << graph;
      EXPECT_EQ(best.episode, wanted.second - 1) << graph;
      EXPECT_EQ(best.placement[0], static_cast<std::byte>(wanted.second)) << graph;
      const auto time = **reader->results().best_time(graph);
      EXPECT_EQ(time.step_time_s, wanted.first) << graph;
      EXPECT_EQ(time.wall_ns, static_cast<std::int64_t>(100 * wanted.second)) << graph;
    };
    std::pair<double, std::uint64_t> all{1, 0};
    for (const auto& [graph, placements] : found) {
      const auto wanted = *std::min_element(placements.begin(), placements.end());
      check(graph, wanted);
      all = std::min(all, wanted);
      const auto samples = *reader->results().samples(graph);
      ASSERT_EQ(samples.size(), 2 * placements.size()) << graph;
      for (std::size_t k = 0; k < samples.size(); ++k) {
        EXPECT_EQ(samples[k].step_time_s, placements[k / 2].first) << graph;
        EXPECT_EQ(samples[k].valid, k % 2 == 1) << graph << ": in commit order";
      }
    }
    check("", all);
    EXPECT_FALSE(reader->results().best("another")->has_value());
    EXPECT_FALSE(reader->results().best_time("another")->has_value());
  }
}

TEST_F(RunReaderTest, MeasurementWithoutAnEpisodeIsNotTheBest) {
  make_whole_run();
  damage(
      "INSERT INTO measurements SELECT 999999, episode, number, 1, 1e-6, bytes_over, bytes_moved, "
      "peak_bytes, host, "
      "executor, executor_kind, attempt, synthetic_share, NULL, NULL, NULL FROM measurements LIMIT 1");
  EXPECT_EQ((*RunReader::open(directory_, Reading::kInProgress))->results().best()->value().step_time_s,
            1.0 / 3);
}

TEST_F(RunReaderTest, ImpossibleNumberOfDevicesIsRefused) {
  make_whole_run();
  damage("UPDATE runs SET num_devices = 4000000000");
  EXPECT_FALSE((*RunReader::open(directory_, Reading::kInProgress))->header().facts().ok());
}

TEST_F(RunReaderTest, UnsealedSchemaIsDamage) {
  for (const char* version : {"0", "4", "7", "-3"}) {
    std::filesystem::remove_all(directory_);
    make_whole_run();
    damage(std::string{"UPDATE runs SET schema_version = "} + version);
    const auto opened = RunReader::open(directory_, Reading::kInProgress);
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.error().context.find("damaged"), std::string::npos) << opened.error().context;
  }
}

TEST_F(RunReaderTest, NewerSchemaIsRefusedAndNothingChanges) {
  make_whole_run();
  damage("UPDATE runs SET schema_version = 6, seal = NULL");  // Another program may write the database
                                                              // without a seal.
  const auto before = files();
  const auto reader = RunReader::open(directory_, Reading::kInProgress);
  const auto writer = RunWriter::open(directory_);
  ASSERT_TRUE(!reader.ok() && !writer.ok());
  for (const Error& refused : {reader.error(), writer.error()}) {
    EXPECT_EQ(refused.code, Errc::kInvalid);
    EXPECT_NE(refused.context.find("schema 6"), std::string::npos) << refused.context;
  }
  const auto after = files();
  EXPECT_EQ(after.at("run.db"), before.at("run.db"));
}

}  // namespace
}  // namespace emplace::record

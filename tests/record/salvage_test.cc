// Goal: everything before the damage of a record is salvaged, and nothing that cannot be trusted.
// Method: real databases, damaged by hand and at random; the salvaged rows are compared with the recorded
// ones.
#include "record/salvage.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/rng.h"
#include "record/run_writer.h"
#include "tests/support/scratch_folder.h"

namespace emplace::record {
namespace {

constexpr std::uint64_t kEpisodes = 200, kUpdates = 100;

class SalvageTest : public ::testing::Test {
 protected:
  static EpisodeRow episode(std::uint64_t seq) {
    Rng rng{seq, Purpose::kTest, 1};
    EpisodeRow row{seq, seq - 1, 0, seq / 2, 2, "graph", Bytes(200), Bytes(40), 2 * (seq - 1), 77};
    for (std::byte& byte : row.placements) byte = static_cast<std::byte>(rng.below(4));
    for (std::byte& byte : row.actions) byte = static_cast<std::byte>(rng.below(256));
    return row;
  }
  static std::vector<MeasurementRow> measurements(std::uint64_t seq) {
    std::vector<MeasurementRow> rows(2);
    for (std::uint32_t i = 0; i < 2; ++i) {
      rows[i].placement_id = 2 * (seq - 1) + i;
      rows[i].episode = seq - 1;
      rows[i].number = i;
      rows[i].valid = true;
      rows[i].step_time_s = 1.0 / static_cast<double>(seq + i);
      rows[i].peak_bytes = {10, 20};
      rows[i].executor = "executor/0";
    }
    return rows;
  }
  /// A run of kEpisodes episodes, two of which make an update.
  void record() {
    RunFacts facts;
    facts.config_toml = "[run]\nseed = 7\n";
    facts.run_id = "0123456789abcdef";
    GraphRow graph{"graph", "g", "g.json", 100, Bytes(5000, std::byte{9}), "[[device]]", 0.1, 0.25, "work"};
    auto db = *RunWriter::create(run_, facts, {graph}, {{"graph", "expert", true, true, 0.75}});
    ASSERT_TRUE(db->add_checkpoint({0, 0, "begin", Bytes(500, std::byte{4}), {}}).ok());
    for (std::uint64_t seq = 1; seq <= kEpisodes; ++seq) {
      ASSERT_TRUE(*db->add_episode(episode(seq), measurements(seq)));
      if (seq % 2 == 0) {
        ASSERT_TRUE(
            db->add_update({{seq / 2, seq / 2, {seq - 2, seq - 1}, {1, 2}, 0, 0, 1, 1, 1, "sha", 0.1, 0.01}})
                .ok());
      }
      ASSERT_TRUE(db->commit().ok());
    }
    ASSERT_TRUE(db->add_checkpoint({kUpdates, kUpdates, "end", Bytes(500, std::byte{5}), {}}).ok());
    ASSERT_TRUE(db->note_actor("sampler/0", "here", 5).ok());
    ASSERT_TRUE(db->commit().ok());
  }
  void damage(const std::string& sql) {
    SQLite::Database db{(run_ / "run.db").string(), SQLite::OPEN_READWRITE};
    ASSERT_GT(db.exec(sql), 0) << sql;
  }
  void overwrite(std::uint32_t at, std::size_t bytes, Rng& rng) {
    std::fstream file{run_ / "run.db", std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(at);
    for (std::size_t i = 0; i < bytes; ++i) file.put(static_cast<char>(rng.below(256)));
  }
  /// Checks that the salvaged rows are a prefix of the recorded ones.
  void expect_a_prefix(const RunReader& db, const Salvaged& salvaged) {
    const auto verified = db.verify();
    ASSERT_TRUE(verified.ok()) << verified.error().context;
    const auto rows = *db.log().episodes(1, kEpisodes);
    ASSERT_EQ(rows.size(), salvaged.counters.episodes);
    for (std::uint64_t seq = 1; seq <= rows.size(); ++seq) {
      const EpisodeRow wanted = episode(seq), &row = rows[seq - 1];
      ASSERT_EQ(row.seq, seq);
      ASSERT_EQ(row.episode, wanted.episode);
      ASSERT_EQ(row.placements, wanted.placements);
      ASSERT_EQ(row.actions, wanted.actions);
      ASSERT_EQ(row.wall_ns, wanted.wall_ns);
      const auto logged = **db.log().row_of(row.episode, false);
      ASSERT_EQ(logged.measurements.at(1).step_time_s, measurements(seq).at(1).step_time_s);
    }
    const std::uint64_t updates = *db.log().last_update();
    EXPECT_LE(2 * updates, rows.size()) << "no update learned from what is missing";
    const bool all = rows.size() == kEpisodes && updates == kUpdates &&
                     db.checkpoints().updates()->size() == 2 && db.header().graphs()->size() == 1 &&
                     db.header().heuristics()->size() == 1;
    EXPECT_TRUE(all || !salvaged.missing.empty()) << "every loss is reported";
  }

  testing::ScratchFolder folder_{"salvage"};
  const std::filesystem::path run_ = folder_.path() / "run", saved_ = folder_.path() / "saved";
};

TEST_F(SalvageTest, IntactRecordIsSalvagedWhole) {
  record();
  const auto before = *read_file(run_ / "run.db");
  const auto salvaged = salvage(run_, saved_);
  ASSERT_TRUE(salvaged.ok()) << salvaged.error().context;
  EXPECT_TRUE(salvaged->missing.empty()) << salvaged->missing.front();
  EXPECT_EQ(salvaged->counters.episodes, kEpisodes);
  EXPECT_EQ(salvaged->counters.updates, kUpdates);
  auto db = *RunReader::open(saved_, Reading::kQuiet);
  expect_a_prefix(*db, *salvaged);
  EXPECT_NE(db->header().facts()->run_id, "0123456789abcdef") << "a separate run";
  EXPECT_NE(db->header().facts()->parent.find("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(db->header().facts()->config_toml, "[run]\nseed = 7\n");
  EXPECT_EQ(*read_file(run_ / "run.db"), before) << "the damaged run stays as it is";
  EXPECT_FALSE(std::filesystem::exists(saved_ / "salvage.part"));
  db.reset();
  const auto again = RunWriter::open(saved_);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(*(**again).add_episode(episode(kEpisodes + 1), measurements(kEpisodes + 1)))
      << "it can be continued";
}

TEST_F(SalvageTest, SalvagesEverythingBeforeTheFirstDamage) {
  struct Case {
    const char* harm;
    std::uint64_t episodes, updates;
  };
  for (const Case& one : {Case{"UPDATE episodes SET placements = x'00' WHERE seq = 101", 100, 50},
                          Case{"UPDATE measurements SET step_time_s = 0.001 WHERE placement_id = 20", 10, 5},
                          Case{"DELETE FROM episodes WHERE seq = 52", 51, 25},
                          Case{"UPDATE updates SET loss = 9 WHERE \"update\" = 7", 200, 6},
                          Case{"DELETE FROM updates WHERE \"update\" = 1", 200, 0},
                          Case{"UPDATE checkpoints SET sha256 = 'x' WHERE \"update\" = 0", 200, 100},
                          Case{"UPDATE runs SET config = 'another'", 200, 100},
                          Case{"UPDATE graphs SET content = x'00'", 200, 100}}) {
    for (const auto& path : {run_, saved_}) std::filesystem::remove_all(path);
    record();
    damage(one.harm);
    const auto salvaged = salvage(run_, saved_);
    ASSERT_TRUE(salvaged.ok()) << one.harm << ": " << salvaged.error().context;
    EXPECT_EQ(salvaged->counters.episodes, one.episodes) << one.harm;
    EXPECT_EQ(salvaged->counters.updates, one.updates) << one.harm;
    auto db = *RunReader::open(saved_, Reading::kQuiet);
    expect_a_prefix(*db, *salvaged);
    EXPECT_EQ(db->header().facts()->config_toml, "[run]\nseed = 7\n")
        << "as at its start, where run.db has another";
    EXPECT_EQ(db->header().graphs()->size(), 1u);
  }
}

TEST_F(SalvageTest, RandomBytesAnywhereLeaveAPrefix) {
  record();
  const Bytes whole = *read_file(run_ / "run.db");
  std::uint64_t episodes = 0;
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    Rng rng{static_cast<std::uint64_t>(round), Purpose::kTest, 2};
    std::filesystem::remove_all(saved_);
    ASSERT_TRUE(write_file(run_ / "run.db", whole).ok());
    for (std::uint32_t block = 0; block < 1u + static_cast<std::uint32_t>(round) % 12; ++block)
      overwrite(rng.below(static_cast<std::uint32_t>(whole.size() - 512)), 512, rng);
    const auto salvaged = salvage(run_, saved_);
    ASSERT_TRUE(salvaged.ok()) << "round " << round << ": " << salvaged.error().context;
    auto db = *RunReader::open(saved_, Reading::kQuiet);
    expect_a_prefix(*db, *salvaged);
    if (::testing::Test::HasFatalFailure()) return;
    episodes += salvaged->counters.episodes;
  }
  RecordProperty("episodes", std::to_string(episodes));
  EXPECT_GT(episodes, kRounds * kEpisodes / 20) << "of " << kRounds * kEpisodes;
}

TEST_F(SalvageTest, TruncatedFileLeavesAPrefix) {
  record();
  const auto size = std::filesystem::file_size(run_ / "run.db");
  const Bytes whole = *read_file(run_ / "run.db");
  std::uint64_t before = 0;
  for (std::uintmax_t part = 1; part <= 24; ++part) {
    std::filesystem::remove_all(saved_);
    ASSERT_TRUE(write_file(run_ / "run.db", whole).ok());
    std::filesystem::resize_file(run_ / "run.db", size * part / 25);
    const auto salvaged = salvage(run_, saved_);
    ASSERT_TRUE(salvaged.ok()) << part << " of 25: " << salvaged.error().context;
    auto db = *RunReader::open(saved_, Reading::kQuiet);
    expect_a_prefix(*db, *salvaged);
    EXPECT_GE(salvaged->counters.episodes, before) << "more of the file, more of the run";
    before = salvaged->counters.episodes;
  }
  EXPECT_GT(before, kEpisodes / 2);
}

TEST_F(SalvageTest, LostFirstPageIsRestored) {
  record();
  Rng rng{1, Purpose::kTest, 3};
  overwrite(0, 4096, rng);
  const auto salvaged = salvage(run_, saved_);
  ASSERT_TRUE(salvaged.ok()) << salvaged.error().context;
  EXPECT_EQ(salvaged->counters.episodes, kEpisodes);
  EXPECT_TRUE(salvaged->missing.empty());
}

TEST_F(SalvageTest, UnreadableRecordIsReported) {
  record();
  std::filesystem::resize_file(run_ / "run.db", 100);
  const auto nothing = salvage(run_, saved_);
  ASSERT_TRUE(nothing.ok()) << nothing.error().context;
  EXPECT_EQ(nothing->counters.episodes, 0u);
  EXPECT_FALSE(nothing->missing.empty());
  std::filesystem::remove_all(saved_);
  std::filesystem::remove(run_ / "run.db");
  const auto initial = salvage(run_, saved_);
  ASSERT_TRUE(initial.ok()) << initial.error().context;
  EXPECT_EQ((*RunReader::open(saved_, Reading::kQuiet))->header().facts()->config_toml, "[run]\nseed = 7\n")
      << "from initial.db";
  std::filesystem::remove_all(saved_);
  std::filesystem::rename(run_ / "initial.db", run_ / "run.db");
  std::filesystem::resize_file(run_ / "run.db", 100);
  const auto refused = salvage(run_, saved_);
  ASSERT_FALSE(refused.ok());
  EXPECT_FALSE(std::filesystem::exists(saved_)) << "no partial output remains";
}

TEST_F(SalvageTest, RefusesARunInProgressAndAUsedFolder) {
  record();
  {
    const auto writer = RunWriter::open(run_);
    ASSERT_TRUE(writer.ok());
    EXPECT_FALSE(salvage(run_, saved_).ok());
  }
  EXPECT_FALSE(salvage(run_, run_).ok());
  EXPECT_TRUE(RunReader::open(run_, Reading::kInProgress).ok());
  EXPECT_FALSE(salvage(folder_.path() / "nothing", saved_).ok());
}

TEST_F(SalvageTest, SalvagesOlderRecords) {
  for (const auto& [name, episodes] :
       {std::pair{"schema3", 12u}, std::pair{"schema4", 6u}, std::pair{"unkept_values", 6u}}) {
    for (const auto& path : {run_, saved_}) std::filesystem::remove_all(path);
    std::filesystem::copy(std::filesystem::path{EMPLACE_FIXTURES} / "runs" / name, run_);
    const auto salvaged = salvage(run_, saved_);
    ASSERT_TRUE(salvaged.ok()) << name << ": " << salvaged.error().context;
    EXPECT_TRUE(salvaged->missing.empty()) << name << ": " << salvaged->missing.front();
    EXPECT_EQ(salvaged->counters.episodes, episodes) << name;
    EXPECT_TRUE((*RunReader::open(saved_, Reading::kQuiet))->verify().ok()) << name;
  }
}

}  // namespace
}  // namespace emplace::record

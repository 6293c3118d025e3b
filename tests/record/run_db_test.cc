// Goal: what was acknowledged can be read back, nothing counts twice, and damage shows.
// Method: a real database on disk; damage done by another connection, byte by byte of what the chain covers.
#include "record/run_db.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

namespace emplace::record {
namespace {

class RunDbTest : public ::testing::Test {
 protected:
  RunDbTest()
      : directory_{std::filesystem::path{::testing::TempDir()} / ("run-db-" + std::to_string(::getpid()))} {
    std::filesystem::remove_all(directory_);
  }
  ~RunDbTest() override { std::filesystem::remove_all(directory_); }

  static EpisodeRow episode(std::uint64_t seq) {
    EpisodeRow row{seq,          seq - 1, 0, 3, 2, "graph", Bytes(200, std::byte{1}), Bytes(10, std::byte{2}),
                   2 * (seq - 1)};
    row.placements[100] = static_cast<std::byte>(seq);
    return row;
  }
  static std::vector<MeasurementRow> measurements(std::uint64_t seq, double step_time_s = 0.5) {
    std::vector<MeasurementRow> rows;
    for (std::uint32_t i = 0; i < 2; ++i) {
      MeasurementRow row;
      row.placement_id = 2 * (seq - 1) + i;
      row.episode = seq - 1;
      row.number = i;
      row.valid = i == 1;
      row.step_time_s = step_time_s;
      row.peak_bytes = {10, 20};
      row.executor = "executor/0";
      rows.push_back(row);
    }
    return rows;
  }
  void fill(RunDb& db, std::uint64_t episodes) {
    for (std::uint64_t seq = 1; seq <= episodes; ++seq)
      ASSERT_TRUE(db.add_episode(episode(seq), measurements(seq, 1.0 / static_cast<double>(seq))).ok());
    ASSERT_TRUE(db.commit().ok());
  }
  void damage(const std::string& sql) {
    SQLite::Database db{(directory_ / "run.db").string(), SQLite::OPEN_READWRITE};
    ASSERT_GT(db.exec(sql), 0) << sql;
  }

  const std::filesystem::path directory_;
};

TEST_F(RunDbTest, GivesBackWhatWasCommitted) {
  RunFacts facts;
  facts.seed = 7;
  facts.graph = "g";
  auto db = *RunDb::create(directory_, facts);
  fill(*db, 3);
  ASSERT_TRUE(db->add_update({1, 1, {0, 2}, 0.5, 1, 2.0, -1.0, 0.7, 0.1, 0.01, "abc"}).ok());
  ASSERT_TRUE(db->add_checkpoint({1, 1, "abc", Bytes(8, std::byte{5}), {}}).ok());
  ASSERT_TRUE(db->commit().ok());
  auto reader = *RunDb::open(directory_, false);
  EXPECT_EQ(reader->facts()->seed, 7u);
  EXPECT_EQ(reader->counters()->episodes, 3u);
  EXPECT_EQ(reader->counters()->measurements, 6u);
  EXPECT_EQ(reader->counters()->valid, 3u);
  const auto best = *reader->best();
  ASSERT_TRUE(best.has_value());
  EXPECT_DOUBLE_EQ(best->step_time_s, 1.0 / 3);
  ASSERT_EQ(best->placement.size(), 100u);
  EXPECT_EQ(best->placement[0], std::byte{3}) << "the second placement of the third episode";
  EXPECT_EQ(reader->updates()->at(0).episodes, (std::vector<std::uint64_t>{0, 2}));
  EXPECT_EQ((*reader->latest_checkpoint())->parameters.size(), 8u);
  EXPECT_EQ(reader->measurements(2, 100)->size(), 4u);
  EXPECT_TRUE(reader->verify().ok());
}

TEST_F(RunDbTest, NothingCountsTwice) {
  auto db = *RunDb::create(directory_, {});
  fill(*db, 2);
  EpisodeRow again = episode(3);
  again.episode = 0;
  const auto refused = db->add_episode(again, measurements(1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kInvalid);
  auto half = measurements(3);
  half[1].placement_id = 0;  // The second one counted already: neither may stay.
  EXPECT_FALSE(db->add_episode(episode(3), half).ok());
  ASSERT_TRUE(db->add_episode(episode(3), measurements(3)).ok());
  ASSERT_TRUE(db->commit().ok());
  EXPECT_EQ(db->counters()->measurements, 6u);
  EXPECT_TRUE(db->verify().ok());
}

TEST_F(RunDbTest, WhatWasNotCommittedIsNotThere) {
  {
    auto db = *RunDb::create(directory_, {});
    fill(*db, 1);
    ASSERT_TRUE(db->add_episode(episode(2), measurements(2)).ok());
  }
  auto db = *RunDb::open(directory_, true);
  EXPECT_EQ(db->counters()->episodes, 1u);
  ASSERT_TRUE(db->add_episode(episode(2), measurements(2)).ok()) << "the chain goes on where it was";
  ASSERT_TRUE(db->commit().ok());
  EXPECT_TRUE(db->verify().ok());
}

TEST_F(RunDbTest, DamageShows) {
  const std::vector<std::string> harms{"UPDATE measurements SET step_time_s = 0.001 WHERE placement_id = 3",
                                       "UPDATE measurements SET valid = 1 WHERE placement_id = 2",
                                       "UPDATE episodes SET placements = x'00' WHERE seq = 2",
                                       "UPDATE episodes SET policy_version = 9 WHERE seq = 2",
                                       "DELETE FROM episodes WHERE seq = 2",
                                       "DELETE FROM measurements WHERE placement_id = 4",
                                       "DELETE FROM episodes WHERE seq = 3"};
  for (const std::string& harm : harms) {
    std::filesystem::remove_all(directory_);
    {
      auto db = *RunDb::create(directory_, {});
      fill(*db, 3);
    }
    damage(harm);
    const auto verified = (*RunDb::open(directory_, false))->verify();
    EXPECT_FALSE(verified.ok()) << harm;
  }
}

TEST_F(RunDbTest, RefusesASecondRunAndPlacesThatCannotHoldOne) {
  { auto db = *RunDb::create(directory_, {}); }
  const auto again = RunDb::create(directory_, {});
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().context.find("--resume"), std::string::npos);
  EXPECT_FALSE(RunDb::create("/proc/emplace", {}).ok());
  EXPECT_FALSE(RunDb::open(directory_ / "nothing", false).ok());
}

TEST_F(RunDbTest, AnEpisodeMayHaveAnyNumber) {
  constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();
  auto db = *RunDb::create(directory_, {});
  EpisodeRow row = episode(1);
  row.episode = kLast;
  auto measured = measurements(1);
  for (MeasurementRow& one : measured) one.episode = kLast, one.peak_bytes = {-1, 0};
  ASSERT_TRUE(db->add_episode(row, measured).ok());
  EXPECT_EQ(db->unlearned()->count(kLast), 1u);
  ASSERT_TRUE(db->add_update({1, 1, {kLast, 0}, 0.5, 1, 2.0, -1.0, 0.7, 0.1, 0.01, "abc"}).ok());
  ASSERT_TRUE(db->commit().ok());
  EXPECT_EQ((*db->update(1))->episodes, (std::vector<std::uint64_t>{kLast, 0}));
  const auto unlearned = db->unlearned();
  ASSERT_TRUE(unlearned.ok()) << unlearned.error().context;
  EXPECT_TRUE(unlearned->empty());
  EXPECT_EQ((*db->log_of(kLast, false))->measurements[0].peak_bytes, (std::vector<std::int64_t>{-1, 0}));
}

TEST_F(RunDbTest, ReadersSeeWhatIsCommittedWhileTheRunGoesOn) {
  auto db = *RunDb::create(directory_, {});
  fill(*db, 1);
  auto reader = *RunDb::open(directory_, false);
  EXPECT_EQ(reader->counters()->episodes, 1u);
  ASSERT_TRUE(db->add_episode(episode(2), measurements(2)).ok());
  EXPECT_EQ(reader->counters()->episodes, 1u);
  ASSERT_TRUE(db->commit().ok());
  EXPECT_EQ(reader->counters()->episodes, 2u);
}

}  // namespace
}  // namespace emplace::record

// Goal: changes of the files of a run while it is written are noticed before anything else is acknowledged.
// Method: a real database on disk, deleted, moved, replaced and written to by others.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/record/recorded_run.h"

namespace emplace::record {
namespace {

/// A run whose files are changed while it is written.
class WatchedRun : public RecordedRun {
 protected:
  WatchedRun() : db_{*RunWriter::create(directory_, {})} { fill(*db_, 3); }
  ~WatchedRun() override { std::filesystem::remove_all(moved()); }
  std::filesystem::path moved() const { return directory_.string() + "-moved"; }
  /// Adds the next episode; returns the result of commit().
  Result<Unit> add(std::uint64_t seq) {
    const auto added = db_->add_episode(episode(seq), measurements(seq));
    return added ? db_->commit() : Result<Unit>{added.error()};
  }
  void expect(const Result<Unit>& refused, Errc code, const std::string& what) {
    ASSERT_FALSE(refused.ok()) << what;
    EXPECT_EQ(refused.error().code, code) << refused.error().context;
    EXPECT_NE(refused.error().context.find(what), std::string::npos) << refused.error().context;
  }
  /// Checkpoints the database, so that its log is empty.
  void checkpoint() {
    SQLite::Database db{(directory_ / "run.db").string(), SQLite::OPEN_READWRITE};
    db.exec("PRAGMA wal_checkpoint(FULL)");
  }
  std::unique_ptr<RunWriter> db_;
};

TEST_F(WatchedRun, DeletedDatabaseIsNoticedAndRewritten) {
  std::filesystem::remove(directory_ / "run.db");
  expect(db_->watch(1), Errc::kIo, "deleted");
  expect(add(4), Errc::kIo, "deleted");
  ASSERT_TRUE(db_->deleted());
  ASSERT_TRUE(RunWriter::write_again(db_).ok());
  db_ = *RunWriter::open(directory_);
  EXPECT_EQ(db_->results().counters()->episodes, 3u) << "what was not acknowledged need not be there";
  EXPECT_TRUE(add(4).ok());
  EXPECT_TRUE(db_->verify().ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ / "run.db.again"));
}

TEST_F(WatchedRun, DatabaseWithoutAnyOfItsFilesIsRewritten) {
  for (const char* name : {"run.db", "run.db-wal", "run.db-shm"}) std::filesystem::remove(directory_ / name);
  expect(db_->watch(1), Errc::kIo, "deleted");
  ASSERT_TRUE(RunWriter::write_again(db_).ok());
  db_ = *RunWriter::open(directory_);
  EXPECT_EQ(db_->results().counters()->episodes, 3u);
  EXPECT_TRUE(db_->verify().ok());
}

TEST_F(WatchedRun, NothingIsAcknowledgedWhileTheDatabaseIsMovedAway) {
  std::filesystem::rename(directory_ / "run.db", directory_ / "away");
  expect(add(4), Errc::kIo, "moved away");
  EXPECT_FALSE(db_->deleted());
  std::filesystem::rename(directory_ / "away", directory_ / "run.db");
  EXPECT_TRUE(db_->watch(1).ok());
}

TEST_F(WatchedRun, MovedFolderMayReturn) {
  std::filesystem::rename(directory_, moved());
  expect(add(4), Errc::kIo, "moved away");
  std::filesystem::rename(moved(), directory_);
  EXPECT_TRUE(db_->watch(1).ok());
}

TEST_F(WatchedRun, AnotherRunInItsPlaceIsNotChanged) {
  std::filesystem::remove_all(directory_);
  expect(add(4), Errc::kInvalid, "the run folder was deleted");
  auto other = *RunWriter::create(directory_, {});
  fill(*other, 1);
  const auto before = files();
  expect(add(5), Errc::kInvalid, "");
  EXPECT_FALSE(db_->deleted());
  db_.reset();
  EXPECT_EQ(files(), before) << "head.seq is the other run's";
  EXPECT_TRUE(other->verify().ok());
}

TEST_F(WatchedRun, AnotherDatabaseInItsPlaceEndsTheRun) {
  std::filesystem::copy(directory_ / "run.db", directory_ / "copy");
  std::filesystem::rename(directory_ / "copy", directory_ / "run.db");
  expect(add(4), Errc::kInvalid, "another file took the place of run.db");
}

TEST_F(WatchedRun, ForeignWritesAreNoticedBeforeTheNextAcknowledgement) {
  Rng rng{5, Purpose::kTest, 2};
  for (int round = 0; round < 8; ++round) {
    std::filesystem::remove_all(directory_);
    db_.reset();
    db_ = *RunWriter::create(directory_, {});
    fill(*db_, 200);
    checkpoint();
    ASSERT_TRUE(db_->watch(1).ok()) << "a checkpoint by another program is no damage";
    std::fstream file{directory_ / "run.db", std::ios::in | std::ios::out | std::ios::binary};
    const auto size = static_cast<std::uint32_t>(std::filesystem::file_size(directory_ / "run.db"));
    for (int block = 0; block < 12; ++block) {
      file.seekp(rng.below(size - 512));
      for (int i = 0; i < 512; ++i) file.put(static_cast<char>(rng.below(256)));
    }
    file.close();
    EXPECT_FALSE(add(201).ok()) << "round " << round;
  }
}

TEST_F(WatchedRun, TruncatedLogIsNoticed) {
  const std::filesystem::path log = directory_ / "run.db-wal";
  std::filesystem::resize_file(log, std::filesystem::file_size(log) * 6 / 10);
  EXPECT_FALSE(add(4).ok());
}

TEST_F(WatchedRun, PatrolFindsUnobservedChanges) {
  checkpoint();
  db_.reset();
  for (const char* harm : {"UPDATE measurements SET step_time_s = 0.001 WHERE placement_id = 3",
                           "UPDATE runs SET config = 'another'"}) {
    const std::filesystem::path copy = directory_.string() + "-copy";
    std::filesystem::copy(directory_, copy);
    SQLite::Database{(copy / "run.db").string(), SQLite::OPEN_READWRITE}.exec(harm);
    auto db = *RunWriter::open(copy);
    bool found = false;
    for (int step = 0; step < 20 && !found; ++step) found = !db->watch(2).ok();
    EXPECT_TRUE(found) << harm;
    db.reset();
    std::filesystem::remove_all(copy);
  }
}

}  // namespace
}  // namespace emplace::record

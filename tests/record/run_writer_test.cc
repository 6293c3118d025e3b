// Goal: acknowledged rows can be read back, nothing counts twice, and one process at a time writes.
// Method: a real database on disk.
#include "record/run_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "base/descriptor.h"
#include "record/store/run_folder.h"
#include "tests/record/recorded_run.h"

namespace emplace::record {
namespace {

class RunWriterTest : public RecordedRun {};

TEST_F(RunWriterTest, RoundTripsCommittedRows) {
  RunFacts facts;
  facts.seed = 7;
  facts.graph = "g";
  auto db = *RunWriter::create(directory_, facts);
  fill(*db, 3);
  ASSERT_TRUE(db->add_update({{1, 1, {0, 2}, {}, 0.5, 1, 2.0, -1.0, 0.7, "abc", 0.1, 0.01}}).ok());
  ASSERT_TRUE(db->add_checkpoint({1, 1, "abc", Bytes(8, std::byte{5}), {}}).ok());
  ASSERT_TRUE(db->commit().ok());
  auto reader = *RunReader::open(directory_, Reading::kInProgress);
  EXPECT_EQ(reader->header().facts()->seed, 7u);
  EXPECT_EQ(reader->results().counters()->episodes, 3u);
  EXPECT_EQ(reader->results().counters()->measurements, 6u);
  EXPECT_EQ(reader->results().counters()->valid, 3u);
  const auto best = *reader->results().best();
  ASSERT_TRUE(best.has_value());
  EXPECT_DOUBLE_EQ(best->step_time_s, 1.0 / 3);
  ASSERT_EQ(best->placement.size(), 100u);
  EXPECT_EQ(best->placement[0], std::byte{3}) << "the second placement of the third episode";
  EXPECT_EQ(reader->log().updates()->at(0).episodes, (std::vector<std::uint64_t>{0, 2}));
  EXPECT_EQ((*reader->checkpoints().latest())->parameters.size(), 8u);
  EXPECT_EQ(reader->log().measurements(2, 100)->size(), 4u);
  EXPECT_TRUE(reader->verify().ok());
}

TEST_F(RunWriterTest, NothingCountsTwice) {
  auto db = *RunWriter::create(directory_, {});
  fill(*db, 2);
  EpisodeRow again = episode(3);
  again.episode = 0;
  EXPECT_FALSE(*db->add_episode(again, measurements(1))) << "counted before";
  auto half = measurements(3);
  half[1].placement_id = 0;  // The second one counted already: neither may be added.
  const auto refused = db->add_episode(episode(3), half);
  ASSERT_FALSE(refused.ok()) << "another episode has that placement: this one would be lost";
  EXPECT_EQ(refused.error().code, Errc::kInvalid);
  ASSERT_TRUE(db->add_episode(episode(3), measurements(3)).ok());
  ASSERT_TRUE(db->commit().ok());
  EXPECT_EQ(db->results().counters()->measurements, 6u);
  EXPECT_TRUE(db->verify().ok());
}

TEST_F(RunWriterTest, UncommittedRowsDoNotExist) {
  {
    auto db = *RunWriter::create(directory_, {});
    fill(*db, 1);
    ASSERT_TRUE(db->add_episode(episode(2), measurements(2)).ok());
  }
  auto db = *RunWriter::open(directory_);
  EXPECT_EQ(db->results().counters()->episodes, 1u);
  ASSERT_TRUE(db->add_episode(episode(2), measurements(2)).ok()) << "the chain continues where it ended";
  ASSERT_TRUE(db->commit().ok());
  EXPECT_TRUE(db->verify().ok());
}

TEST_F(RunWriterTest, RefusesASecondRunAndUnusablePlaces) {
  { auto db = *RunWriter::create(directory_, {}); }
  const auto again = RunWriter::create(directory_, {});
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().context.find("--resume"), std::string::npos);
  EXPECT_FALSE(RunWriter::create("/proc/emplace", {}).ok());
  EXPECT_FALSE(RunReader::open(directory_ / "nothing", Reading::kInProgress).ok());
}

TEST_F(RunWriterTest, AllowsAnyEpisodeNumber) {
  constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();
  auto db = *RunWriter::create(directory_, {});
  EpisodeRow row = episode(1);
  row.episode = kLast;
  auto measured = measurements(1);
  for (MeasurementRow& one : measured) one.episode = kLast, one.peak_bytes = {-1, 0};
  ASSERT_TRUE(db->add_episode(row, measured).ok());
  EXPECT_EQ(db->log().unlearned()->count(kLast), 1u);
  ASSERT_TRUE(db->add_update({{1, 1, {kLast, 0}, {}, 0.5, 1, 2.0, -1.0, 0.7, "abc", 0.1, 0.01}}).ok());
  ASSERT_TRUE(db->commit().ok());
  EXPECT_EQ((*db->log().update(1))->episodes, (std::vector<std::uint64_t>{kLast, 0}));
  const auto unlearned = db->log().unlearned();
  ASSERT_TRUE(unlearned.ok()) << unlearned.error().context;
  EXPECT_TRUE(unlearned->empty());
  EXPECT_EQ((*db->log().row_of(kLast, false))->measurements[0].peak_bytes,
            (std::vector<std::int64_t>{-1, 0}));
}

TEST_F(RunWriterTest, KeepsGraphsHeuristicsAndRemeasurements) {
  make_whole_run();
  auto db = *RunWriter::open(directory_);
  const auto graphs = db->header().graphs();
  ASSERT_EQ(graphs->size(), 1u);
  EXPECT_EQ(graphs->front().devices_toml, "[[device]]");
  EXPECT_EQ(graphs->front().content, Bytes(50, std::byte{9}));
  EXPECT_EQ(graphs->front().reserve, 0.1);
  const auto heuristics = db->header().heuristics();
  ASSERT_EQ(heuristics->size(), 1u);
  EXPECT_EQ(heuristics->front().peak_bytes, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(heuristics->front().placement, Bytes(100, std::byte{1}));
  EXPECT_EQ(db->log().update(2)->value().divergence, 0.5);
  EXPECT_EQ(db->log().update(2)->value().wall_ns, 78);
  RemeasureSession session{{2, 0.5, std::nan(""), 0.1, 0.1, 0.2, 0.3, 1}, 0, "cpu", "here", 5};
  ASSERT_TRUE(db->add_remeasured(
                    session, {{4, "graph", 1.0, true, 1.5, 0.1, ""}, {5, "graph", 1.0, false, 0, 0, "no"}})
                  .ok());
  ASSERT_TRUE(db->add_remeasured(session, {}).ok());
  EXPECT_EQ(session.session, 2u);
  const auto sessions = db->remeasurements().sessions();
  ASSERT_EQ(sessions->size(), 2u);
  EXPECT_EQ(sessions->front().spearman, 0.5);
  EXPECT_TRUE(std::isnan(sessions->front().kendall));
  const auto rows = db->remeasurements().rows(1);
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ(rows->at(0).step_time_s, 1.5);
  EXPECT_EQ(rows->at(1).error, "no");
}

TEST_F(RunWriterTest, AllowsOneWriterAndMakesQuietReadersWait) {
  auto writer = *RunWriter::create(directory_, {});
  fill(*writer, 1);
  const auto second = RunWriter::open(directory_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Errc::kInvalid);
  const auto quiet = RunReader::open(directory_, Reading::kQuiet);
  ASSERT_FALSE(quiet.ok());
  EXPECT_NE(quiet.error().context.find("still being written"), std::string::npos) << quiet.error().context;
  EXPECT_EQ((*RunReader::open(directory_, Reading::kInProgress))->results().counters()->episodes, 1u)
      << "others may read during the run";
  writer.reset();
  auto reader = *RunReader::open(directory_, Reading::kQuiet);
  auto another = *RunReader::open(directory_, Reading::kQuiet);
  EXPECT_FALSE(RunWriter::open(directory_).ok()) << "what is read stays as it is";
  reader.reset();
  another.reset();
  EXPECT_TRUE(RunWriter::open(directory_).ok());
}

/// Data that a failed sync may have left only in memory must be on the disk before more is acknowledged.
// The run waits until such a moment is over; that another process writes would end it.
TEST_F(RunWriterTest, IsNotCalledTakenWhileNoFileCanBeOpened) {
  (void)*RunWriter::create(directory_, {});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Descriptor lowest_free{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  const rlimit none{static_cast<rlim_t>(lowest_free.get()), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto refused = RunWriter::open(directory_);
  const bool written = is_being_written(directory_);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kIo) << refused.error().context;
  EXPECT_NE(refused.error().context.find("open files"), std::string::npos) << refused.error().context;
  EXPECT_FALSE(written);
  EXPECT_TRUE(RunWriter::open(directory_).ok());
}

// The owner of a folder may leave links in it, through which files of this user would be written.
TEST_F(RunWriterTest, FolderOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a folder another user's";
  std::filesystem::create_directories(directory_ / "log");
  ASSERT_TRUE(check_folder(directory_).ok());
  for (const auto& theirs : {directory_, directory_ / "log"}) {
    ASSERT_EQ(::chown(theirs.c_str(), 12345, 12345), 0);
    const auto refused = check_folder(directory_);
    EXPECT_FALSE(refused.ok() || refused.error().code != Errc::kInvalid) << theirs;
    ASSERT_EQ(::chown(theirs.c_str(), 0, 0), 0);
  }
  std::filesystem::rename(directory_ / "log", directory_ / "elsewhere");
  std::filesystem::create_directory_symlink(directory_ / "elsewhere", directory_ / "log");
  EXPECT_FALSE(check_folder(directory_).ok()) << "a link";
  std::filesystem::remove(directory_ / "log");
  EXPECT_TRUE(check_folder(directory_).ok());
}

// A record may be anybody's: nothing in it runs when it is read, resumed or branched.
TEST_F(RunWriterTest, RecordWithCodeIsRefused) {
  for (const char* code : {"CREATE TRIGGER t AFTER INSERT ON episodes BEGIN DELETE FROM episodes; END",
                           "CREATE VIEW v AS SELECT * FROM episodes"}) {
    std::filesystem::remove_all(directory_);
    (void)*RunWriter::create(directory_, {});
    { SQLite::Database{(directory_ / "run.db").string(), SQLite::OPEN_READWRITE}.exec(code); }
    for (const bool writes : {true, false}) {
      const auto error =
          writes ? RunWriter::open(directory_).error() : RunReader::open(directory_, Reading::kQuiet).error();
      EXPECT_EQ(error.code, Errc::kInvalid);
      EXPECT_NE(error.context.find("which no run makes"), std::string::npos) << error.context;
    }
  }
}

TEST_F(RunWriterTest, WriterCheckpointsTheWholeLogWhenItOpens) {
  const auto left = directory_.parent_path() / (directory_.filename().string() + "-left");
  std::filesystem::remove_all(left);
  auto writer = *RunWriter::create(directory_, {});
  fill(*writer, 3);
  std::filesystem::copy(directory_, left);  // The files as a killed process leaves them.
  ASSERT_GT(std::filesystem::file_size(left / "run.db-wal"), 0u);
  const auto opened = RunWriter::open(left);
  ASSERT_TRUE(opened.ok()) << opened.error().context;
  EXPECT_EQ(std::filesystem::file_size(left / "run.db-wal"), 0u);
  std::filesystem::copy(left / "run.db", left / "alone.db");
  SQLite::Database alone{(left / "alone.db").string()};
  EXPECT_EQ(alone.execAndGet("SELECT COUNT(*) FROM episodes").getInt(), 3);
  std::filesystem::remove_all(left);
}

TEST_F(RunWriterTest, CannotBeOpenedToWriteWhileItsLogIsRead) {
  auto writer = *RunWriter::create(directory_, {});
  fill(*writer, 2);
  SQLite::Database reader{(directory_ / "run.db").string()};
  auto reading = std::make_unique<SQLite::Statement>(reader, "SELECT seq FROM episodes");
  ASSERT_TRUE(reading->executeStep());
  writer.reset();
  const auto refused = RunWriter::open(directory_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kIo) << "opening it may be retried";
  EXPECT_NE(refused.error().context.find("reader"), std::string::npos) << refused.error().context;
  EXPECT_TRUE(RunWriter::open(directory_, Durability::kProcess).ok()) << "that does not wait for the disk";
  reading.reset();
  EXPECT_TRUE(RunWriter::open(directory_).ok());
}

TEST_F(RunWriterTest, ExistingFolderKeepsItsMode) {
  std::filesystem::create_directories(directory_);
  constexpr auto kShared = std::filesystem::perms{01777};
  std::filesystem::permissions(directory_, kShared);
  ASSERT_TRUE(RunWriter::create(directory_, {}).ok());
  EXPECT_EQ(std::filesystem::status(directory_).permissions(), kShared);
  std::filesystem::remove_all(directory_);
  ASSERT_TRUE(RunWriter::create(directory_ / "made", {}).ok());
  EXPECT_EQ(std::filesystem::status(directory_ / "made").permissions(), std::filesystem::perms::owner_all);
}

}  // namespace
}  // namespace emplace::record

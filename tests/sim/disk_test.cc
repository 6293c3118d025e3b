// Goal: everything that the run database has acknowledged exists after a power cut, whatever the disk did
// before. Method: the real run database on the simulated disk; seeds draw what the disk does. Each rule of
// the disk itself has a case, so that a disk that has become too kind is noticed.
#include "tests/sim/disk.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <array>

#include "record/run_writer.h"
#include "tests/sim/empty_run.h"
#include "tests/support/scratch_folder.h"

namespace emplace::sim_test {
namespace {

/// A file that is used by the functions that SQLite calls.
class RawFile {
 public:
  explicit RawFile(const char* name, int type = SQLITE_OPEN_WAL) {
    sqlite3_vfs* vfs = sqlite3_vfs_find(nullptr);
    memory_.resize(static_cast<std::size_t>(vfs->szOsFile));
    file_ = reinterpret_cast<sqlite3_file*>(memory_.data());
    int flags = 0;
    opened = vfs->xOpen(vfs, name, file_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | type, &flags);
  }
  ~RawFile() {
    if (opened == SQLITE_OK) file_->pMethods->xClose(file_);
  }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  void write(char text) {
    const std::array<char, 1> bytes{text};
    EXPECT_EQ(file_->pMethods->xWrite(file_, bytes.data(), 1, 0), SQLITE_OK);
  }
  /// Returns '-' for an empty file.
  char read() {
    std::array<char, 1> bytes{};
    return file_->pMethods->xRead(file_, bytes.data(), 1, 0) == SQLITE_OK ? bytes[0] : '-';
  }
  int sync() { return file_->pMethods->xSync(file_, SQLITE_SYNC_NORMAL); }

  int opened = SQLITE_ERROR;

 private:
  std::vector<std::max_align_t> memory_;
  sqlite3_file* file_ = nullptr;
};

bool exists(const char* name) {
  sqlite3_vfs* vfs = sqlite3_vfs_find(nullptr);
  int found = 0;
  vfs->xAccess(vfs, name, SQLITE_ACCESS_EXISTS, &found);
  return found != 0;
}

int remove(const char* name, bool sync_directory) {
  sqlite3_vfs* vfs = sqlite3_vfs_find(nullptr);
  return vfs->xDelete(vfs, name, sync_directory ? 1 : 0);
}

/// Values of a byte after a story, over many seeds.
template <class Story>
std::set<char> outcomes(Story story) {
  std::set<char> seen;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Disk disk{seed};
    seen.insert(story(disk));
  }
  return seen;
}

TEST(SimulatedDisk, PowerCutLosesAnyUnsyncedPart) {
  const auto story = [](Disk& disk) {
    {
      RawFile file{"a"};
      file.write('1');
      EXPECT_EQ(file.sync(), SQLITE_OK);
      file.write('2');
      disk.cut_power();
    }
    return RawFile{"a"}.read();
  };
  EXPECT_EQ(outcomes(story), (std::set{'1', '2'}));
}

TEST(SimulatedDisk, KilledProcessLosesNothing) {
  const auto story = [](Disk& disk) {
    {
      RawFile file{"a"};
      file.write('1');
      disk.kill_process();
    }
    return RawFile{"a"}.read();
  };
  EXPECT_EQ(outcomes(story), (std::set{'1'}));
}

TEST(SimulatedDisk, LaterSyncDoesNotWriteWhatAFailedSyncLost) {
  std::set<char> read_before;
  const auto story = [&](Disk& disk) {
    disk.failed_sync_loses = true;
    {
      RawFile file{"a"};
      file.write('1');
      EXPECT_EQ(file.sync(), SQLITE_OK);
      file.write('2');
      disk.sync_fails = 1;
      EXPECT_EQ(file.sync(), SQLITE_IOERR_FSYNC);
      disk.sync_fails = 0;
      EXPECT_EQ(file.sync(), SQLITE_OK);
      read_before.insert(file.read());
      disk.cut_power();
    }
    return RawFile{"a"}.read();
  };
  EXPECT_EQ(outcomes(story), (std::set{'1', '2'}));
  EXPECT_EQ(read_before, (std::set{'1', '2'})) << "reads before the power cut may return either";
}

TEST(SimulatedDisk, NamesAreDurableOnceTheirDirectoryIsSynced) {
  const auto story = [](Disk& disk) {
    disk.names_need_sync = true;
    RawFile{"a"};
    disk.cut_power();
    return exists("a") ? 'y' : 'n';
  };
  EXPECT_EQ(outcomes(story), (std::set{'n', 'y'}));
  const auto deleted = [&](bool sync) {
    return outcomes([sync](Disk& disk) {
      disk.names_need_sync = true;
      RawFile file{"a"};
      EXPECT_EQ(file.sync(), SQLITE_OK);
      EXPECT_EQ(remove("a", sync), SQLITE_OK);
      disk.cut_power();
      return exists("a") ? 'y' : 'n';
    });
  };
  EXPECT_EQ(deleted(false), (std::set{'n', 'y'}));
  EXPECT_EQ(deleted(true), (std::set{'n'}));
}

TEST(SimulatedDisk, ExhaustionRefusesOpen) {
  Disk disk{1};
  disk.exhausted = Exhausted::kDescriptors;
  EXPECT_EQ(RawFile{"a"}.opened, SQLITE_CANTOPEN);
  disk.exhausted = Exhausted::kMemory;
  EXPECT_EQ(RawFile{"a"}.opened, SQLITE_NOMEM);
  disk.exhausted = Exhausted::kNothing;
  EXPECT_EQ(RawFile{"a"}.opened, SQLITE_OK);
}

TEST(SimulatedDisk, ReadersAndAWriterLockEachOtherOut) {
  const testing::ScratchFolder folder{"disk"};
  const std::string directory = folder.path().string();
  Disk disk{1};
  put_empty_run(disk, directory);
  auto writer = *record::RunWriter::open(directory);
  ASSERT_TRUE(writer->add_actor("a", "", 1).ok());
  ASSERT_TRUE(writer->commit().ok());
  ASSERT_TRUE(record::RunReader::open(directory, record::Reading::kInProgress).ok())
      << "and it is closed again";
  ASSERT_TRUE(writer->add_actor("b", "", 2).ok());
  ASSERT_TRUE(writer->commit().ok());
  writer.reset();
  SQLite::Database reader{directory + "/run.db"};
  EXPECT_EQ(reader.execAndGet("SELECT COUNT(*) FROM actors").getInt(), 2) << "closing it removed no log";
}

/// A minimal recorder: after an error it retries with a newly opened database, and it acknowledges only what
/// it has committed.
class Writer {
 public:
  explicit Writer(std::string directory) : directory_{std::move(directory)} {}

  void add_one() {
    const bool had = db_ != nullptr;
    if (!db_) open();
    if (!db_) return;
    if (!had) {
      EXPECT_GE(there(), acknowledged) << "an acknowledged episode is missing";
    }
    const std::uint64_t seq = there() + 1;
    const record::EpisodeRow row{seq, seq, 0, 1, 1, "graph", Bytes(200, std::byte(seq)), {}, seq};
    record::MeasurementRow measured;
    measured.placement_id = measured.episode = seq;
    if (db_->add_episode(row, {measured}).ok() && db_->commit().ok()) {
      acknowledged = seq;
    } else {
      db_.reset();
    }
  }
  void die() { db_.reset(); }
  record::RunWriter* database() { return db_.get(); }

  std::uint64_t acknowledged = 0;

 private:
  void open() {
    if (auto opened = record::RunWriter::open(directory_)) db_ = *std::move(opened);
  }
  std::uint64_t there() { return db_->results().counters()->episodes; }

  const std::string directory_;
  std::unique_ptr<record::RunWriter> db_;
};

Result<std::unique_ptr<record::RunReader>> open_run(const std::string& directory, bool writable) {
  if (!writable) return record::RunReader::open(directory, record::Reading::kInProgress);
  auto writer = record::RunWriter::open(directory);
  if (!writer) return writer.error();
  return std::unique_ptr<record::RunReader>{*std::move(writer)};
}

TEST(RunOnADisk, TransientErrorsAreNotDamage) {
  const testing::ScratchFolder folder{"disk"};
  const std::string directory = folder.path().string();
  Disk disk{1};
  put_empty_run(disk, directory);
  const auto refused = [&](bool writable) {
    const auto opened = open_run(directory, writable);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, Errc::kIo) << opened.error().context;
    EXPECT_EQ(opened.error().context.find("damaged"), std::string::npos) << opened.error().context;
  };
  for (const bool writable : {false, true}) {
    disk.read_fails = 1;
    refused(writable);
    disk.read_fails = 0;
    for (const Exhausted what : {Exhausted::kDescriptors, Exhausted::kMemory}) {
      disk.exhausted = what;
      refused(writable);
    }
    disk.exhausted = Exhausted::kNothing;
  }
}

TEST(RunOnADisk, FailedReadsAreNotDamageInVerify) {
  const testing::ScratchFolder folder{"disk"};
  const std::string directory = folder.path().string();
  std::set<bool> seen;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Disk disk{seed};
    put_empty_run(disk, directory);
    Writer writer{directory};
    for (int i = 0; i < 3; ++i) writer.add_one();
    const auto reader = *record::RunReader::open(directory, record::Reading::kInProgress);
    disk.read_fails = 0.05;
    const auto whole = reader->verify();
    seen.insert(whole.ok());
    if (!whole.ok()) {
      EXPECT_EQ(whole.error().code, Errc::kIo) << whole.error().context;
    }
    disk.read_fails = 0;
    EXPECT_TRUE(reader->verify().ok());
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST(RunOnADisk, FailedRecoveryIsNotDamage) {
  const testing::ScratchFolder folder{"disk"};
  const std::string directory = folder.path().string();
  Disk disk{1};
  put_empty_run(disk, directory);
  Writer writer{directory};
  writer.add_one();
  disk.kill_process();  // Its log remains.
  writer.die();
  disk.sync_fails = 1;
  const auto refused = record::RunWriter::open(directory);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kIo) << refused.error().context;
  disk.sync_fails = 0;
  const auto opened = record::RunWriter::open(directory);
  ASSERT_TRUE(opened.ok()) << opened.error().context;
  EXPECT_EQ((*opened)->results().counters()->episodes, 1u);
}

TEST(RunOnADisk, LogWithADamagedFrameIsRefused) {
  const testing::ScratchFolder folder{"disk"};
  const std::string directory = folder.path().string();
  std::set<bool> seen;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Disk disk{seed};
    put_empty_run(disk, directory);
    Writer writer{directory};
    for (int i = 0; i < 3; ++i) writer.add_one();
    while (disk.rot()->find("run.db-wal") == std::string::npos) {
    }
    disk.kill_process();
    writer.die();
    const auto opened = record::RunWriter::open(directory);
    seen.insert(opened.ok());
    if (opened) {
      EXPECT_EQ((*opened)->results().counters()->episodes, 3u);
    } else {
      EXPECT_EQ(opened.error().code, Errc::kInvalid) << opened.error().context;
    }
  }
  EXPECT_TRUE(seen.contains(false));
}

TEST(RunOnADisk, LogWithoutItsLastUpdatesIsRefused) {
  const testing::ScratchFolder folder{"disk"};
  const std::string directory = folder.path().string();
  Disk disk{1};
  put_empty_run(disk, directory);
  Writer writer{directory};
  writer.add_one();
  writer.die();  // The episode is in the database now.
  auto db = *record::RunWriter::open(directory);
  record::UpdateRow update;
  update.update = 1;
  update.episodes = {1};
  ASSERT_TRUE(db->add_update(update).ok());
  ASSERT_TRUE(db->commit().ok());
  disk.kill_process();
  db.reset();
  ASSERT_EQ(remove((directory + "/run.db-wal").c_str(), true), SQLITE_OK);
  for (const bool writable : {false, true}) {
    const auto opened = open_run(directory, writable);
    const auto whole = opened ? (*opened)->verify() : Result<Unit>{opened.error()};
    ASSERT_FALSE(whole.ok());
    EXPECT_NE(whole.error().context.find("0 updates of 1"), std::string::npos) << whole.error().context;
  }
}

TEST(RunOnADisk, ValueThatCannotBeUnpackedIsDamage) {
  const testing::ScratchFolder folder{"disk"};
  const std::string directory = folder.path().string();
  Disk disk{1};
  put_empty_run(disk, directory);
  const auto db = *record::RunWriter::open(directory);
  ASSERT_TRUE(db->add_checkpoint({1, 1, "abc", Bytes(300, std::byte{5}), {}}).ok());
  ASSERT_TRUE(db->commit().ok());
  SQLite::Database other{directory + "/run.db", SQLite::OPEN_READWRITE};
  // Only zstd's magic number.
  ASSERT_EQ(other.exec("UPDATE checkpoints SET parameters = x'28b52ffd'"), 1);
  const auto read = db->checkpoints().latest();
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Errc::kInvalid) << read.error().context;
}

/// A fault of the disk between two episodes.
void draw(Rng& rng, Disk& disk, Writer& writer) {
  disk.sync_fails = rng.below(3) == 0 ? 0.5 : 0;
  disk.full = rng.below(4) == 0;
  if (rng.below(6) != 0) return;
  rng.below(2) == 0 ? disk.cut_power() : disk.kill_process();
  writer.die();
}

TEST(RunOnADisk, KeepsAcknowledgedEpisodesThroughFailedSyncsAndPowerCuts) {
  const testing::ScratchFolder folder{"disk"};
  const std::string directory = folder.path().string();
  for (std::uint64_t seed = 1; seed <= 60 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Disk disk{seed};
    put_empty_run(disk, directory);
    disk.failed_sync_loses = disk.names_need_sync = true;
    Rng rng{seed, Purpose::kTest};
    Writer writer{directory};
    for (int i = 0; i < 40; ++i) {
      draw(rng, disk, writer);
      writer.add_one();
    }
    disk.cut_power();
    writer.die();
    disk.sync_fails = 0;
    disk.full = false;
    writer.add_one();
    ASSERT_NE(writer.database(), nullptr);
    const auto whole = writer.database()->verify();
    EXPECT_TRUE(whole.ok()) << whole.error().context;
  }
}

}  // namespace
}  // namespace emplace::sim_test

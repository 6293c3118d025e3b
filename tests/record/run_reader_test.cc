// Goal: who reads a run sees what was committed, changes no file, and is refused what this program did not
// write. Method: a real database on disk, changed by another connection.
#include "record/run_reader.h"

#include <gtest/gtest.h>

#include "tests/record/recorded_run.h"

namespace emplace::record {
namespace {

class RunReaderTest : public RecordedRun {};

TEST_F(RunReaderTest, ReadersSeeWhatIsCommittedWhileTheRunGoesOn) {
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

TEST_F(RunReaderTest, AMeasurementOfNoEpisodeIsNotTheBest) {
  make_whole_run();
  damage(
      "INSERT INTO measurements SELECT 999999, episode, number, 1, 1e-6, bytes_over, bytes_moved, "
      "peak_bytes, host, "
      "executor, executor_kind, attempt, synthetic_share, NULL, NULL, NULL FROM measurements LIMIT 1");
  EXPECT_EQ((*RunReader::open(directory_, Reading::kInProgress))->results().best()->value().step_time_s,
            1.0 / 3);
}

TEST_F(RunReaderTest, ANumberOfDevicesThatNoMachineHasIsRefused) {
  make_whole_run();
  damage("UPDATE runs SET num_devices = 4000000000");
  EXPECT_FALSE((*RunReader::open(directory_, Reading::kInProgress))->header().facts().ok());
}

TEST_F(RunReaderTest, ASchemaThatNobodySealedIsDamage) {
  for (const char* version : {"0", "4", "7", "-3"}) {
    std::filesystem::remove_all(directory_);
    make_whole_run();
    damage(std::string{"UPDATE runs SET schema_version = "} + version);
    const auto opened = RunReader::open(directory_, Reading::kInProgress);
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.error().context.find("damaged"), std::string::npos) << opened.error().context;
  }
}

TEST_F(RunReaderTest, ANewerSchemaIsRefusedAndNothingChanges) {
  make_whole_run();
  damage("UPDATE runs SET schema_version = 6, seal = NULL");  // As another program seals it.
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

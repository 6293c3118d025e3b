// Goal: runs of older schemas and programs are read with the same results, and can be continued.
// Method: runs that those programs recorded.

#include <gtest/gtest.h>

#include "tests/record/recorded_run.h"

namespace emplace::record {
namespace {

class OlderRun : public RecordedRun {};

TEST_F(OlderRun, RecordWithValuesThatSqliteChangedVerifies) {
  // Written by 0.1.0: NaN, -NaN, -0.0 and labels above 3, hashed before they were stored.
  std::filesystem::copy(std::filesystem::path{EMPLACE_FIXTURES} / "runs" / "unkept_values", directory_);
  const auto verified = (*RunReader::open(directory_, Reading::kQuiet))->verify();
  EXPECT_TRUE(verified.ok()) << verified.error().context;
  EXPECT_EQ((*RunReader::open(directory_, Reading::kQuiet))->results().counters()->episodes, 6u);
  for (const char* change : {"UPDATE measurements SET step_time_s = 1e-3 WHERE placement_id = 3",
                             "UPDATE measurements SET step_time_s = NULL WHERE placement_id = 0",
                             "UPDATE updates SET loss = NULL WHERE \"update\" = 1",
                             "UPDATE updates SET loss = 0.5 WHERE \"update\" = 2"}) {
    std::filesystem::remove_all(directory_);
    std::filesystem::copy(std::filesystem::path{EMPLACE_FIXTURES} / "runs" / "unkept_values", directory_);
    damage(change);
    EXPECT_FALSE((*RunReader::open(directory_, Reading::kInProgress))->verify().ok()) << change;
  }
}

/// A run that schema 3 recorded: 12 episodes and updates of colocrl.
class RunOfSchema3 : public RecordedRun {
 protected:
  RunOfSchema3() {
    std::filesystem::create_directories(directory_);
    std::filesystem::copy(std::filesystem::path{EMPLACE_FIXTURES} / "runs" / "schema3", directory_);
  }
};

TEST_F(RunOfSchema3, CanBeReadAndIsNotChanged) {
  const auto before = files();
  auto db = *RunReader::open(directory_, Reading::kQuiet);
  EXPECT_TRUE(db->verify().ok()) << db->verify().error().context;
  EXPECT_EQ(db->results().counters()->episodes, 12u);
  EXPECT_EQ(db->log().updates()->size(), 12u);
  EXPECT_EQ(db->log().update(12)->value().wall_ns, 0);
  EXPECT_TRUE(db->header().graphs()->empty());
  EXPECT_EQ(db->header().facts()->run_id, "");
  EXPECT_EQ(db->results().best()->value().placement.size(), db->header().facts()->num_ops);
  db.reset();
  EXPECT_EQ(files(), before);
}

TEST_F(RunOfSchema3, IsMigratedWhenItContinues) {
  const std::string as_it_was = all_of(**RunReader::open(directory_, Reading::kQuiet));
  {
    auto db = *RunWriter::open(directory_);
    EXPECT_EQ(all_of(*db), as_it_was);
    EpisodeRow row = episode(13);
    auto measured = measurements(13);
    row.placement_id = 1000;
    for (auto& m : measured) m.placement_id += 1000 - 24;
    ASSERT_TRUE(db->add_episode(row, measured).ok());
    ASSERT_TRUE(db->add_update(
                      {{.update = 13, .policy_version = 13, .episodes = {12}, .parameters_sha256 = "abc"}, 1})
                    .ok());
    ASSERT_TRUE(db->commit().ok());
  }
  auto again = *RunReader::open(directory_, Reading::kQuiet);
  EXPECT_TRUE(again->verify().ok()) << again->verify().error().context;
  EXPECT_EQ(again->results().counters()->episodes, 13u);
}

/// A run that schema 4 recorded: 6 episodes of 4 placements and 6 updates.
class RunOfSchema4 : public RecordedRun {
 protected:
  RunOfSchema4() {
    std::filesystem::create_directories(directory_);
    std::filesystem::copy(std::filesystem::path{EMPLACE_FIXTURES} / "runs" / "schema4", directory_);
  }
};

TEST_F(RunOfSchema4, CanBeReadAndIsNotChanged) {
  const auto before = files();
  auto db = *RunReader::open(directory_, Reading::kQuiet);
  EXPECT_TRUE(db->verify().ok()) << db->verify().error().context;
  EXPECT_EQ(db->results().counters()->episodes, 6u);
  EXPECT_EQ(db->results().counters()->measurements, 24u);
  EXPECT_EQ(db->header().graphs()->size(), 1u);
  for (const MeasurementRow& row : *db->log().measurements(1, 100)) {
    EXPECT_EQ(row.label, MeasurementLabel::kSimulated);
    EXPECT_TRUE(row.failure.empty() && row.samples_s.empty());
  }
  EXPECT_EQ(db->results().best()->value().placement.size(), db->header().facts()->num_ops);
  db.reset();
  EXPECT_EQ(files(), before);
}

TEST_F(RunOfSchema4, IsMigratedWhenItContinues) {
  const std::string as_it_was = all_of(**RunReader::open(directory_, Reading::kQuiet));
  {
    auto db = *RunWriter::open(directory_);
    EXPECT_EQ(all_of(*db), as_it_was);
    EpisodeRow row = episode(7);
    auto measured = measurements(7);
    row.placement_id = 1000;
    for (auto& m : measured) m.placement_id += 1000 - 12;
    measured[0].failure = "crashed: signal 11";
    ASSERT_TRUE(db->add_episode(row, measured).ok());
    ASSERT_TRUE(db->commit().ok());
  }
  auto again = *RunReader::open(directory_, Reading::kQuiet);
  EXPECT_TRUE(again->verify().ok()) << again->verify().error().context;
  EXPECT_EQ(again->results().counters()->episodes, 7u);
  EXPECT_EQ(again->log().measurements(7, 10)->front().failure, "crashed: signal 11");
}

}  // namespace
}  // namespace emplace::record

// Goal: every written record verifies, and damage is detected.
// Method: a real database on disk; damage done by another connection, and byte by byte to its files.
#include "record/store/integrity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "tests/record/recorded_run.h"

namespace emplace::record {
namespace {

class IntegrityTest : public RecordedRun {};

TEST_F(IntegrityTest, DamageIsDetected) {
  const std::vector<std::string> harms{
      "UPDATE measurements SET step_time_s = 0.001 WHERE placement_id = 3",
      "UPDATE measurements SET valid = 1 WHERE placement_id = 2",
      "UPDATE episodes SET placements = x'00' WHERE seq = 2",
      "UPDATE episodes SET policy_version = 9 WHERE seq = 2",
      "DELETE FROM episodes WHERE seq = 2",
      "DELETE FROM measurements WHERE placement_id = 4",
      "DELETE FROM episodes WHERE seq = 3",
      "UPDATE runs SET config = 'another'",
      "UPDATE graphs SET devices = 'others'",
      "UPDATE graphs SET content = x'00'",
      "UPDATE baselines SET step_time_s = 0.1",
      "UPDATE updates SET advantages = x'00000000'",
      "UPDATE updates SET episodes = '0 1' WHERE \"update\" = 1",
      "DELETE FROM updates WHERE \"update\" = 1",
      "UPDATE checkpoints SET parameters = x'00'",
      "UPDATE checkpoints SET sha256 = 'abd'",
      "UPDATE updates SET \"update\" = 0, seal = NULL WHERE \"update\" = 1",
      "UPDATE updates SET policy_version = NULL, episodes = NULL, staleness_mean = NULL, staleness_max = "
      "NULL, "
      "gradient_norm = NULL, loss = NULL, entropy = NULL, learning_rate = NULL, wall_s = NULL, "
      "parameters_sha256 = NULL, advantages = NULL, log_probability = NULL, divergence = NULL, wall_ns = "
      "NULL, "
      "seal = NULL WHERE \"update\" = 2",
      "INSERT INTO measurements SELECT 999999, episode, number, 1, 1e-6, bytes_over, "
      "bytes_moved, peak_bytes, host, executor, executor_kind, attempt, synthetic_share, NULL, NULL, NULL "
      "FROM measurements LIMIT 1"};
  for (const std::string& harm : harms) {
    std::filesystem::remove_all(directory_);
    make_whole_run();
    EXPECT_TRUE((*RunReader::open(directory_, Reading::kInProgress))->verify().ok());
    damage(harm);
    const auto verified = (*RunReader::open(directory_, Reading::kInProgress))->verify();
    EXPECT_FALSE(verified.ok()) << harm;
  }
}

TEST_F(IntegrityTest, LabelsRoundTripAndKeepTheirStoredNames) {
  const std::vector<std::string> names{"simulated", "measured", "measured, partly synthetic", "emulated",
                                       "measured in PyTorch"};
  ASSERT_EQ(names.size(), kMeasurementLabels);
  auto db = *RunWriter::create(directory_, {});
  for (std::size_t label = 0; label < names.size(); ++label) {
    EXPECT_EQ(label_name(static_cast<MeasurementLabel>(label)), names[label]) << "records of any age have it";
    auto rows = measurements(label + 1);
    for (MeasurementRow& row : rows) row.label = static_cast<MeasurementLabel>(label);
    ASSERT_TRUE(db->add_episode(episode(label + 1), rows).ok());
  }
  ASSERT_TRUE(db->commit().ok());
  for (std::size_t label = 0; label < names.size(); ++label)
    for (const MeasurementRow& row : *db->log().measurements(label + 1, 1))
      EXPECT_EQ(row.label, static_cast<MeasurementLabel>(label));
  EXPECT_TRUE(db->verify().ok());
}

TEST_F(IntegrityTest, MeasurementsOfRealExecutorsRoundTripAndAreHashed) {
  {
    auto db = *RunWriter::create(directory_, {});
    auto rows = measurements(1);
    rows[0].failure = "crashed: signal 11 (Segmentation fault)";
    rows[1].label = MeasurementLabel::kPartlySynthetic;
    rows[1].samples_s = {0.5, 0.25, 1e-300};
    rows[1].synthetic_share = 0.125;
    ASSERT_TRUE(db->add_episode(episode(1), rows).ok());
    ASSERT_TRUE(db->add_episode(episode(2), measurements(2)).ok());
    ASSERT_TRUE(db->commit().ok());
    const auto back = *db->log().measurements(1, 10);
    EXPECT_EQ(back[0].failure, rows[0].failure);
    EXPECT_EQ(back[0].label, MeasurementLabel::kSimulated);
    EXPECT_EQ(back[1].label, MeasurementLabel::kPartlySynthetic);
    EXPECT_EQ(back[1].samples_s, rows[1].samples_s);
    EXPECT_TRUE(back[2].failure.empty() && back[2].samples_s.empty()) << "nothing of the row before stays";
    EXPECT_EQ(db->results().best()->value().label, MeasurementLabel::kPartlySynthetic);
    EXPECT_EQ(db->results().best()->value().peak_bytes, (std::vector<std::int64_t>{10, 20}));
    EXPECT_EQ(*db->results().least_bytes_over(), std::optional<std::int64_t>{0});
    EXPECT_TRUE(db->verify().ok());
  }
  for (const char* change :
       {"UPDATE measurements SET failure = NULL WHERE placement_id = 0",
        "UPDATE measurements SET label = 'measured' WHERE placement_id = 1",
        "UPDATE measurements SET label = 'measured' WHERE placement_id = 2",
        "UPDATE measurements SET samples_s = x'00' || samples_s WHERE placement_id = 1"}) {
    const std::filesystem::path copy = directory_ / "copy";
    std::filesystem::create_directories(copy);
    std::filesystem::copy_file(directory_ / "run.db", copy / "run.db",
                               std::filesystem::copy_options::overwrite_existing);
    SQLite::Database{(copy / "run.db").string(), SQLite::OPEN_READWRITE}.exec(change);
    EXPECT_FALSE((*RunReader::open(copy, Reading::kQuiet))->verify().ok()) << change;
  }
}

TEST_F(IntegrityTest, AllRowsVerify) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> numbers{0.5,        0.0,  -0.0,   kNan,  -kNan,  kInfinity,
                                    -kInfinity, -1e9, 5e-324, 1e308, -1e308, 1e-9};
  Rng rng{17, Purpose::kTest, 1};
  const auto number = [&] { return numbers[rng.below(static_cast<std::uint32_t>(numbers.size()))]; };
  GraphRow graph{"graph", "g", "g.json", 100, Bytes(50, std::byte{9}), "", -0.0, kNan, "work"};
  HeuristicRow heuristic{"graph", "expert", true, true, kNan, 0, 12, {3, 4}, 1, -0.0, "", {}};
  auto db = *RunWriter::create(directory_, {}, {graph}, {heuristic});
  for (std::uint64_t seq = 1; seq <= 300; ++seq) {
    auto rows = measurements(seq);
    for (MeasurementRow& row : rows) {
      row.step_time_s = number();
      row.synthetic_share = number();
      row.bytes_over = rng.below(2) == 0 ? std::numeric_limits<std::int64_t>::min() : 0;
      row.label = static_cast<MeasurementLabel>(rng.below(256));
      row.samples_s = {number(), number()};
      row.executor = std::string("a\0b\xff", 4);
      row.failure = rng.below(2) == 0 ? "" : std::string("\0", 1);
      row.peak_bytes = {std::numeric_limits<std::int64_t>::min(), -1};
    }
    ASSERT_TRUE(db->add_episode(episode(seq), rows).ok());
    UpdateRow update;
    update.update = update.policy_version = seq;
    update.episodes = {seq - 1};
    update.staleness_max = 1;
    for (double* field : {&update.staleness_mean, &update.gradient_norm, &update.loss, &update.entropy,
                          &update.learning_rate, &update.wall_s})
      *field = number();
    update.advantages = {static_cast<float>(number()), static_cast<float>(number())};
    update.log_probability = number();
    update.divergence = number();
    ASSERT_TRUE(db->add_update(update).ok());
  }
  ASSERT_TRUE(db->commit().ok());
  const auto verified = db->verify();
  EXPECT_TRUE(verified.ok()) << verified.error().context;
  const auto best = *db->results().best();
  ASSERT_TRUE(best);
  EXPECT_GE(best->step_time_s, 0) << "neither NaN nor a negative time is a best one";
  db.reset();
  for (int rounds = 0; rounds < 2; ++rounds) {  // The patrol agrees.
    auto again = *RunWriter::open(directory_);
    for (int step = 0; step < 20; ++step) ASSERT_TRUE(again->watch(64).ok());
  }
}

// Every region of the file: header, table and index pages, free space.
TEST_F(IntegrityTest, FlippedByteIsRefusedOrMakesNoDifference) {
  make_whole_run();
  const std::string whole = all_of(**RunReader::open(directory_, Reading::kQuiet));
  ASSERT_NE(whole, "");
  const Bytes file = *read_file(directory_ / "run.db");
  Rng rng{11, Purpose::kTest, 0};
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < 120; ++at)
    places.push_back(at);  // The headers of the file and of the first page.
  for (int i = 0; i < 500; ++i) places.push_back(rng.below(static_cast<std::uint32_t>(file.size())));
  int refused = 0;
  for (const std::size_t at : places) {
    Bytes flipped = file;
    flipped[at] ^= static_cast<std::byte>(1u << rng.below(8));
    overwrite(directory_ / "run.db", flipped);
    const auto opened = RunReader::open(directory_, Reading::kQuiet);
    const auto verified = opened ? (*opened)->verify() : Result<Unit>{opened.error()};
    if (!verified) {
      ++refused;
      EXPECT_EQ(verified.error().code, Errc::kInvalid);
      EXPECT_EQ(verified.error().context.find('\n'), std::string::npos);
    } else {
      EXPECT_EQ(all_of(**opened), whole) << "byte " << at;
    }
    EXPECT_EQ(*read_file(directory_ / "run.db"), flipped);
  }
  EXPECT_GT(refused, 50);
}

TEST_F(IntegrityTest, TruncatedDatabaseIsRefused) {
  make_whole_run();
  const std::string whole = all_of(**RunReader::open(directory_, Reading::kQuiet));
  const Bytes file = *read_file(directory_ / "run.db");
  std::size_t refused = 0;
  for (std::size_t size = 0; size < file.size(); size += 509) {
    overwrite(directory_ / "run.db", std::span{file}.first(size));
    const auto opened = RunReader::open(directory_, Reading::kQuiet);
    if (opened.ok() && (*opened)->verify().ok()) {
      EXPECT_EQ(all_of(**opened), whole) << size;  // The end of the last page was free.
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, file.size() / 509 * 3 / 4);
}

// Acknowledged rows that are still in SQLite's log: a lost byte loses the rest, which head.seq reveals.
TEST_F(IntegrityTest, FlippedByteOfTheLogIsRefusedOrMakesNoDifference) {
  make_whole_run();
  std::string whole;
  const std::filesystem::path copy = directory_.string() + "-copy";
  {
    auto db = *RunWriter::open(directory_);
    for (std::uint64_t seq = 4; seq <= 6; ++seq) {
      ASSERT_TRUE(db->add_episode(episode(seq), measurements(seq)).ok());
      ASSERT_TRUE(db->commit().ok());
    }
    whole = all_of(*db);
    std::filesystem::remove_all(copy);
    std::filesystem::copy(directory_, copy);  // The files as a power cut leaves them.
  }
  std::filesystem::remove_all(directory_);
  std::filesystem::rename(copy, directory_);
  std::filesystem::remove(directory_ / "run.db-shm");
  const Bytes wal = *read_file(directory_ / "run.db-wal"), file = *read_file(directory_ / "run.db");
  ASSERT_GT(wal.size(), 4096u);
  Rng rng{12, Purpose::kTest, 0};
  int refused = 0;
  for (int i = 0; i < 200; ++i) {
    Bytes flipped = wal;
    const std::size_t at =
        i < 60 ? static_cast<std::size_t>(i) : rng.below(static_cast<std::uint32_t>(wal.size()));
    flipped[at] ^= static_cast<std::byte>(1u << rng.below(8));
    overwrite(directory_ / "run.db-wal", flipped);
    std::filesystem::remove(directory_ / "run.db-shm");
    {
      const auto opened = RunReader::open(directory_, Reading::kQuiet);
      const auto verified = opened ? (*opened)->verify() : Result<Unit>{opened.error()};
      if (!verified) {
        ++refused;
      } else {
        EXPECT_EQ(all_of(**opened), whole) << "byte " << at;
      }
    }
    EXPECT_EQ(*read_file(directory_ / "run.db"), file);
    EXPECT_EQ(*read_file(directory_ / "run.db-wal"), flipped);
  }
  EXPECT_GT(refused, 60);
}

}  // namespace
}  // namespace emplace::record

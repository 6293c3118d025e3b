// Goal: what was acknowledged can be read back, nothing counts twice, and damage shows.
// Method: a real database on disk; damage done by another connection, byte by byte of what the chain covers.
#include "record/run_db.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <span>
#include <sstream>

#include "base/hash.h"
#include "base/rng.h"
#include "record/folder_lock.h"

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
  /// A row and more in every table.
  void make_whole_run() {
    RunFacts facts;
    facts.config_toml = "[run]\nseed = 7\n";
    GraphRow graph{"graph", "g", "g.json", 100, Bytes(50, std::byte{9}), "[[device]]", 0.1, 0.25, "work"};
    BaselineRow baseline{"graph", "expert", true, true, 0.75, 0,
                         12,      {3, 4},   1,    0.01, "",   Bytes(100, std::byte{1})};
    auto db = *RunDb::create(directory_, facts, {graph}, {baseline});
    fill(*db, 3);
    ASSERT_TRUE(
        db->add_update({1, 1, {0}, 0.5, 1, 2.0, -1.0, 0.7, 0.1, 0.01, "abc", {1, 2}, -3, 0.5, 77}).ok());
    ASSERT_TRUE(
        db->add_update({2, 2, {1}, 0.5, 1, 2.0, -1.0, 0.7, 0.1, 0.01, "abd", {3, 4}, -3, 0.5, 78}).ok());
    ASSERT_TRUE(db->add_checkpoint({1, 1, "abc", Bytes(8, std::byte{5}), {}}).ok());
    ASSERT_TRUE(db->commit().ok());
  }
  /// In place, as damage does it; nobody waits for the disk.
  static void overwrite(const std::filesystem::path& file, std::span<const std::byte> bytes) {
    std::ofstream out{file, std::ios::binary | std::ios::trunc};
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    ASSERT_TRUE(out.flush().good());
  }
  std::map<std::string, Bytes> files() const {
    std::map<std::string, Bytes> all;
    for (const auto& entry : std::filesystem::directory_iterator{directory_})
      all[entry.path().filename().string()] = *read_file(entry.path());
    return all;
  }
  /// A hash of everything that can be read; empty if any of it is refused.
  std::string all_of(RunDb& db) const {
    std::string all;
    const auto facts = db.facts();
    const auto graphs = db.graph_rows();
    const auto baselines = db.baselines();
    const auto episodes = db.episodes(1, 1000);
    const auto measurements = db.measurements(1, 1000);
    const auto updates = db.updates();
    const auto checkpoint = db.latest_checkpoint();
    const auto best = db.best();
    if (!facts || !graphs || !baselines || !episodes || !measurements || !updates || !checkpoint || !best)
      return "";
    const auto add = [&](const auto&... fields) {
      ((all += (std::ostringstream{} << fields << '|').str()), ...);
    };
    const auto bytes = [](const Bytes& b) {
      return std::string{reinterpret_cast<const char*>(b.data()), b.size()};
    };
    add(facts->config_toml, facts->seed, facts->graph);
    for (const auto& g : *graphs) add(g.sha256, g.name, g.devices_toml, bytes(g.content), g.lower_bound_s);
    for (const auto& b : *baselines) add(b.method, b.step_time_s, b.valid, bytes(b.placement));
    for (const auto& e : *episodes) add(e.seq, e.episode, e.count, bytes(e.placements), bytes(e.actions));
    for (const auto& m : *measurements) add(m.placement_id, m.valid, m.step_time_s, m.executor);
    for (const auto& u : *updates) add(u.update, u.loss, u.parameters_sha256, u.advantages.size());
    if (*checkpoint) add((**checkpoint).sha256, bytes((**checkpoint).parameters));
    if (*best) add((**best).placement_id, bytes((**best).placement));
    return sha256_hex(std::as_bytes(std::span{all}));
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
  EXPECT_FALSE(*db->add_episode(again, measurements(1))) << "counted before";
  auto half = measurements(3);
  half[1].placement_id = 0;  // The second one counted already: neither may stay.
  const auto refused = db->add_episode(episode(3), half);
  ASSERT_FALSE(refused.ok()) << "another episode has that placement: this one would be lost";
  EXPECT_EQ(refused.error().code, Errc::kInvalid);
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
    EXPECT_TRUE((*RunDb::open(directory_, false))->verify().ok());
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

TEST_F(RunDbTest, KeepsGraphsBaselinesAndWhatWasMeasuredAgain) {
  make_whole_run();
  auto db = *RunDb::open(directory_, true);
  const auto graphs = db->graph_rows();
  ASSERT_EQ(graphs->size(), 1u);
  EXPECT_EQ(graphs->front().devices_toml, "[[device]]");
  EXPECT_EQ(graphs->front().content, Bytes(50, std::byte{9}));
  EXPECT_EQ(graphs->front().reserve, 0.1);
  const auto baselines = db->baselines();
  ASSERT_EQ(baselines->size(), 1u);
  EXPECT_EQ(baselines->front().peak_bytes, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(baselines->front().placement, Bytes(100, std::byte{1}));
  EXPECT_EQ(db->update(2)->value().divergence, 0.5);
  EXPECT_EQ(db->update(2)->value().wall_ns, 78);
  RemeasureSession session{{2, 0.5, std::nan(""), 0.1, 0.1, 0.2, 0.3, 1}, 0, "cpu", "here", 5};
  ASSERT_TRUE(db->add_remeasured(
                    session, {{4, "graph", 1.0, true, 1.5, 0.1, ""}, {5, "graph", 1.0, false, 0, 0, "no"}})
                  .ok());
  ASSERT_TRUE(db->add_remeasured(session, {}).ok());
  EXPECT_EQ(session.session, 2u);
  const auto sessions = db->remeasure_sessions();
  ASSERT_EQ(sessions->size(), 2u);
  EXPECT_EQ(sessions->front().spearman, 0.5);
  EXPECT_TRUE(std::isnan(sessions->front().kendall));
  const auto rows = db->remeasured(1);
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ(rows->at(0).step_time_s, 1.5);
  EXPECT_EQ(rows->at(1).error, "no");
}

TEST_F(RunDbTest, OneWriterAtATimeAndReadersThatWantQuietWait) {
  auto writer = *RunDb::create(directory_, {});
  fill(*writer, 1);
  const auto second = RunDb::open(directory_, true);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Errc::kInvalid);
  const auto quiet = RunDb::open_quiet(directory_);
  ASSERT_FALSE(quiet.ok());
  EXPECT_NE(quiet.error().context.find("still being written"), std::string::npos) << quiet.error().context;
  EXPECT_EQ((*RunDb::open(directory_, false))->counters()->episodes, 1u)
      << "others may look while it goes on";
  writer.reset();
  auto reader = *RunDb::open_quiet(directory_);
  auto another = *RunDb::open_quiet(directory_);
  EXPECT_FALSE(RunDb::open(directory_, true).ok()) << "what is read stays as it is";
  reader.reset();
  another.reset();
  EXPECT_TRUE(RunDb::open(directory_, true).ok());
}

/// What a sync that failed may have left only in memory must be on the disk before more is acknowledged.
TEST_F(RunDbTest, WhoOpensARunToWriteFirstWritesItsWholeLogIntoTheDatabase) {
  const auto left = directory_.parent_path() / (directory_.filename().string() + "-left");
  std::filesystem::remove_all(left);
  auto writer = *RunDb::create(directory_, {});
  fill(*writer, 3);
  std::filesystem::copy(directory_, left);  // As a process that is killed leaves it.
  ASSERT_GT(std::filesystem::file_size(left / "run.db-wal"), 0u);
  const auto opened = RunDb::open(left, true);
  ASSERT_TRUE(opened.ok()) << opened.error().context;
  EXPECT_EQ(std::filesystem::file_size(left / "run.db-wal"), 0u);
  std::filesystem::copy(left / "run.db", left / "alone.db");
  SQLite::Database alone{(left / "alone.db").string()};
  EXPECT_EQ(alone.execAndGet("SELECT COUNT(*) FROM episodes").getInt(), 3);
  std::filesystem::remove_all(left);
}

TEST_F(RunDbTest, WhileSomebodyReadsFromItsLogARunCannotBeOpenedToWrite) {
  auto writer = *RunDb::create(directory_, {});
  fill(*writer, 2);
  SQLite::Database reader{(directory_ / "run.db").string()};
  auto reading = std::make_unique<SQLite::Statement>(reader, "SELECT seq FROM episodes");
  ASSERT_TRUE(reading->executeStep());
  writer.reset();
  const auto refused = RunDb::open(directory_, true);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kIo) << "who opens it may try again";
  EXPECT_NE(refused.error().context.find("reader"), std::string::npos) << refused.error().context;
  EXPECT_TRUE(RunDb::open(directory_, true, Durability::kProcess).ok()) << "nobody waits for the disk there";
  reading.reset();
  EXPECT_TRUE(RunDb::open(directory_, true).ok());
}

TEST_F(RunDbTest, QuietReadersChangeNoFile) {
  make_whole_run();
  const auto before = files();
  EXPECT_FALSE(before.contains("run.db-wal"));
  {
    auto reader = *RunDb::open_quiet(directory_);
    EXPECT_NE(all_of(*reader), "");
    EXPECT_TRUE(reader->verify().ok());
  }
  EXPECT_EQ(files(), before);
}

TEST_F(RunDbTest, AMeasurementOfNoEpisodeIsNotTheBest) {
  make_whole_run();
  damage(
      "INSERT INTO measurements SELECT 999999, episode, number, 1, 1e-6, bytes_over, bytes_moved, "
      "peak_bytes, host, "
      "executor, executor_kind, attempt, synthetic_share, NULL, NULL, NULL FROM measurements LIMIT 1");
  EXPECT_EQ((*RunDb::open(directory_, false))->best()->value().step_time_s, 1.0 / 3);
}

TEST_F(RunDbTest, ANumberOfDevicesThatNoMachineHasIsRefused) {
  make_whole_run();
  damage("UPDATE runs SET num_devices = 4000000000");
  EXPECT_FALSE((*RunDb::open(directory_, false))->facts().ok());
}

TEST_F(RunDbTest, ASchemaThatNobodySealedIsDamage) {
  for (const char* version : {"0", "4", "7", "-3"}) {
    std::filesystem::remove_all(directory_);
    make_whole_run();
    damage(std::string{"UPDATE runs SET schema_version = "} + version);
    const auto opened = RunDb::open(directory_, false);
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.error().context.find("damaged"), std::string::npos) << opened.error().context;
  }
}

TEST_F(RunDbTest, ANewerSchemaIsRefusedAndNothingChanges) {
  make_whole_run();
  damage("UPDATE runs SET schema_version = 6, seal = NULL");  // As another program seals it.
  const auto before = files();
  for (const bool writable : {false, true}) {
    const auto opened = RunDb::open(directory_, writable);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, Errc::kInvalid);
    EXPECT_NE(opened.error().context.find("schema 6"), std::string::npos) << opened.error().context;
  }
  const auto after = files();
  EXPECT_EQ(after.at("run.db"), before.at("run.db"));
}

TEST_F(RunDbTest, WhatRealExecutorsSayIsReadBackAndGuarded) {
  {
    auto db = *RunDb::create(directory_, {});
    auto rows = measurements(1);
    rows[0].failure = "crashed: signal 11 (Segmentation fault)";
    rows[1].label = MeasurementLabel::kPartlySynthetic;
    rows[1].samples_s = {0.5, 0.25, 1e-300};
    rows[1].synthetic_share = 0.125;
    ASSERT_TRUE(db->add_episode(episode(1), rows).ok());
    ASSERT_TRUE(db->add_episode(episode(2), measurements(2)).ok());
    ASSERT_TRUE(db->commit().ok());
    const auto back = *db->measurements(1, 10);
    EXPECT_EQ(back[0].failure, rows[0].failure);
    EXPECT_EQ(back[0].label, MeasurementLabel::kSimulated);
    EXPECT_EQ(back[1].label, MeasurementLabel::kPartlySynthetic);
    EXPECT_EQ(back[1].samples_s, rows[1].samples_s);
    EXPECT_TRUE(back[2].failure.empty() && back[2].samples_s.empty()) << "nothing of the row before stays";
    EXPECT_EQ(db->best()->value().label, MeasurementLabel::kPartlySynthetic);
    EXPECT_EQ(db->best()->value().peak_bytes, (std::vector<std::int64_t>{10, 20}));
    EXPECT_EQ(*db->least_bytes_over(), std::optional<std::int64_t>{0});
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
    EXPECT_FALSE((*RunDb::open_quiet(copy))->verify().ok()) << change;
  }
}

TEST_F(RunDbTest, WhateverIsAddedVerifies) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> numbers{0.5,        0.0,  -0.0,   kNan,  -kNan,  kInfinity,
                                    -kInfinity, -1e9, 5e-324, 1e308, -1e308, 1e-9};
  Rng rng{17, Purpose::kTest, 1};
  const auto number = [&] { return numbers[rng.below(static_cast<std::uint32_t>(numbers.size()))]; };
  GraphRow graph{"graph", "g", "g.json", 100, Bytes(50, std::byte{9}), "", -0.0, kNan, "work"};
  BaselineRow baseline{"graph", "expert", true, true, kNan, 0, 12, {3, 4}, 1, -0.0, "", {}};
  auto db = *RunDb::create(directory_, {}, {graph}, {baseline});
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
    UpdateRow update{seq, seq, {seq - 1}, number(), 1, number(), number(), number(), number(), number()};
    update.advantages = {static_cast<float>(number()), static_cast<float>(number())};
    update.log_probability = number();
    update.divergence = number();
    ASSERT_TRUE(db->add_update(update).ok());
  }
  ASSERT_TRUE(db->commit().ok());
  const auto verified = db->verify();
  EXPECT_TRUE(verified.ok()) << verified.error().context;
  const auto best = *db->best();
  ASSERT_TRUE(best);
  EXPECT_GE(best->step_time_s, 0) << "neither NaN nor a negative time is a best one";
  db.reset();
  for (int rounds = 0; rounds < 2; ++rounds) {  // And the patrol agrees.
    auto again = *RunDb::open(directory_, true);
    for (int step = 0; step < 20; ++step) ASSERT_TRUE(again->watch(64).ok());
  }
}

TEST_F(RunDbTest, ARecordWhoseValuesSqliteDidNotKeepIsStillWhole) {
  // Written by 0.1.0: NaN, -NaN, -0.0 and labels above 3, hashed before they were stored.
  std::filesystem::copy(std::filesystem::path{EMPLACE_FIXTURES} / "runs" / "unkept_values", directory_);
  const auto verified = (*RunDb::open_quiet(directory_))->verify();
  EXPECT_TRUE(verified.ok()) << verified.error().context;
  EXPECT_EQ((*RunDb::open_quiet(directory_))->counters()->episodes, 6u);
  for (const char* change : {"UPDATE measurements SET step_time_s = 1e-3 WHERE placement_id = 3",
                             "UPDATE measurements SET step_time_s = NULL WHERE placement_id = 0",
                             "UPDATE updates SET loss = NULL WHERE \"update\" = 1",
                             "UPDATE updates SET loss = 0.5 WHERE \"update\" = 2"}) {
    std::filesystem::remove_all(directory_);
    std::filesystem::copy(std::filesystem::path{EMPLACE_FIXTURES} / "runs" / "unkept_values", directory_);
    damage(change);
    EXPECT_FALSE((*RunDb::open(directory_, false))->verify().ok()) << change;
  }
}

TEST_F(RunDbTest, AFolderThatExistsKeepsItsMode) {
  std::filesystem::create_directories(directory_);
  constexpr auto kShared = std::filesystem::perms{01777};
  std::filesystem::permissions(directory_, kShared);
  ASSERT_TRUE(RunDb::create(directory_, {}).ok());
  EXPECT_EQ(std::filesystem::status(directory_).permissions(), kShared);
  std::filesystem::remove_all(directory_);
  ASSERT_TRUE(RunDb::create(directory_ / "made", {}).ok());
  EXPECT_EQ(std::filesystem::status(directory_ / "made").permissions(), std::filesystem::perms::owner_all);
}

/// What befalls the files of a run while it is written.
class WatchedRun : public RunDbTest {
 protected:
  WatchedRun() : db_{*RunDb::create(directory_, {})} { fill(*db_, 3); }
  ~WatchedRun() override { std::filesystem::remove_all(moved()); }
  std::filesystem::path moved() const { return directory_.string() + "-moved"; }
  /// Adds the next episode; what commit() says.
  Result<Unit> add(std::uint64_t seq) {
    const auto added = db_->add_episode(episode(seq), measurements(seq));
    return added ? db_->commit() : Result<Unit>{added.error()};
  }
  void expect(const Result<Unit>& refused, Errc code, const std::string& what) {
    ASSERT_FALSE(refused.ok()) << what;
    EXPECT_EQ(refused.error().code, code) << refused.error().context;
    EXPECT_NE(refused.error().context.find(what), std::string::npos) << refused.error().context;
  }
  /// Writes the database back into its file, so that there is nothing in the log.
  void checkpoint() {
    SQLite::Database db{(directory_ / "run.db").string(), SQLite::OPEN_READWRITE};
    db.exec("PRAGMA wal_checkpoint(FULL)");
  }
  std::unique_ptr<RunDb> db_;
};

TEST_F(WatchedRun, ADeletedDatabaseIsNoticedAndWrittenAgain) {
  std::filesystem::remove(directory_ / "run.db");
  expect(db_->watch(1), Errc::kIo, "deleted");
  expect(add(4), Errc::kIo, "deleted");
  ASSERT_TRUE(db_->deleted());
  ASSERT_TRUE(RunDb::write_again(db_).ok());
  db_ = *RunDb::open(directory_, true);
  EXPECT_EQ(db_->counters()->episodes, 3u) << "what was not acknowledged need not be there";
  EXPECT_TRUE(add(4).ok());
  EXPECT_TRUE(db_->verify().ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ / "run.db.again"));
}

TEST_F(WatchedRun, ADatabaseWhoseFilesAreAllDeletedIsWrittenAgain) {
  for (const char* name : {"run.db", "run.db-wal", "run.db-shm"}) std::filesystem::remove(directory_ / name);
  expect(db_->watch(1), Errc::kIo, "deleted");
  ASSERT_TRUE(RunDb::write_again(db_).ok());
  db_ = *RunDb::open(directory_, true);
  EXPECT_EQ(db_->counters()->episodes, 3u);
  EXPECT_TRUE(db_->verify().ok());
}

TEST_F(WatchedRun, NothingIsAcknowledgedWhileTheDatabaseIsElsewhere) {
  std::filesystem::rename(directory_ / "run.db", directory_ / "away");
  expect(add(4), Errc::kIo, "moved away");
  EXPECT_FALSE(db_->deleted());
  std::filesystem::rename(directory_ / "away", directory_ / "run.db");
  EXPECT_TRUE(db_->watch(1).ok());
}

TEST_F(WatchedRun, AFolderThatIsMovedMayComeBack) {
  std::filesystem::rename(directory_, moved());
  expect(add(4), Errc::kIo, "moved away");
  std::filesystem::rename(moved(), directory_);
  EXPECT_TRUE(db_->watch(1).ok());
}

TEST_F(WatchedRun, AnotherRunInItsPlaceIsNotTouched) {
  std::filesystem::remove_all(directory_);
  expect(add(4), Errc::kInvalid, "the folder was deleted");
  auto other = *RunDb::create(directory_, {});
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

TEST_F(WatchedRun, RandomBytesFromOutsideAreNoticedBeforeAnythingElseIsAcknowledged) {
  Rng rng{5, Purpose::kTest, 2};
  for (int round = 0; round < 8; ++round) {
    std::filesystem::remove_all(directory_);
    db_.reset();
    db_ = *RunDb::create(directory_, {});
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

TEST_F(WatchedRun, ALogCutShortIsNoticed) {
  const std::filesystem::path log = directory_ / "run.db-wal";
  std::filesystem::resize_file(log, std::filesystem::file_size(log) * 6 / 10);
  EXPECT_FALSE(add(4).ok());
}

TEST_F(WatchedRun, ThePatrolFindsWhatNobodyWasSeenToChange) {
  checkpoint();
  db_.reset();
  for (const char* harm : {"UPDATE measurements SET step_time_s = 0.001 WHERE placement_id = 3",
                           "UPDATE runs SET config = 'another'"}) {
    const std::filesystem::path copy = directory_.string() + "-copy";
    std::filesystem::copy(directory_, copy);
    SQLite::Database{(copy / "run.db").string(), SQLite::OPEN_READWRITE}.exec(harm);
    auto db = *RunDb::open(copy, true);
    bool found = false;
    for (int step = 0; step < 20 && !found; ++step) found = !db->watch(2).ok();
    EXPECT_TRUE(found) << harm;
    db.reset();
    std::filesystem::remove_all(copy);
  }
}

TEST_F(RunDbTest, OneLauncherAtATime) {
  std::filesystem::create_directories(directory_);
  {
    const auto first = LaunchLock::take(directory_);
    ASSERT_TRUE(first.ok());
    const auto second = LaunchLock::take(directory_);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, Errc::kInvalid);
    EXPECT_TRUE(RunDb::create(directory_, {}).ok()) << "its processes may write meanwhile";
  }
  EXPECT_FALSE(std::filesystem::exists(directory_ / "lock"));
  EXPECT_TRUE(LaunchLock::take(directory_).ok());
}

/// A run that schema 3 recorded: 12 episodes and updates of colocrl.
class OldRun : public RunDbTest {
 protected:
  OldRun() {
    std::filesystem::create_directories(directory_);
    std::filesystem::copy(std::filesystem::path{EMPLACE_FIXTURES} / "runs" / "schema3", directory_);
  }
};

TEST_F(OldRun, CanBeReadAndIsNotChanged) {
  const auto before = files();
  auto db = *RunDb::open_quiet(directory_);
  EXPECT_TRUE(db->verify().ok()) << db->verify().error().context;
  EXPECT_EQ(db->counters()->episodes, 12u);
  EXPECT_EQ(db->updates()->size(), 12u);
  EXPECT_EQ(db->update(12)->value().wall_ns, 0);
  EXPECT_TRUE(db->graph_rows()->empty());
  EXPECT_EQ(db->facts()->run_id, "");
  EXPECT_EQ(db->best()->value().placement.size(), db->facts()->num_ops);
  db.reset();
  EXPECT_EQ(files(), before);
}

TEST_F(OldRun, IsBroughtUpToDateByWhoGoesOn) {
  const std::string as_it_was = all_of(**RunDb::open_quiet(directory_));
  {
    auto db = *RunDb::open(directory_, true);
    EXPECT_EQ(all_of(*db), as_it_was);
    EpisodeRow row = episode(13);
    auto measured = measurements(13);
    row.placement_id = 1000;
    for (auto& m : measured) m.placement_id += 1000 - 24;
    ASSERT_TRUE(db->add_episode(row, measured).ok());
    ASSERT_TRUE(db->add_update({13, 13, {12}, 0, 0, 0, 0, 0, 0, 0, "abc", {}, 0, 0, 1}).ok());
    ASSERT_TRUE(db->commit().ok());
  }
  auto again = *RunDb::open_quiet(directory_);
  EXPECT_TRUE(again->verify().ok()) << again->verify().error().context;
  EXPECT_EQ(again->counters()->episodes, 13u);
}

/// A run that schema 4 recorded: 6 episodes of 4 placements and 6 updates.
class RunOfSchema4 : public RunDbTest {
 protected:
  RunOfSchema4() {
    std::filesystem::create_directories(directory_);
    std::filesystem::copy(std::filesystem::path{EMPLACE_FIXTURES} / "runs" / "schema4", directory_);
  }
};

TEST_F(RunOfSchema4, CanBeReadAndIsNotChanged) {
  const auto before = files();
  auto db = *RunDb::open_quiet(directory_);
  EXPECT_TRUE(db->verify().ok()) << db->verify().error().context;
  EXPECT_EQ(db->counters()->episodes, 6u);
  EXPECT_EQ(db->counters()->measurements, 24u);
  EXPECT_EQ(db->graph_rows()->size(), 1u);
  for (const MeasurementRow& row : *db->measurements(1, 100)) {
    EXPECT_EQ(row.label, MeasurementLabel::kSimulated);
    EXPECT_TRUE(row.failure.empty() && row.samples_s.empty());
  }
  EXPECT_EQ(db->best()->value().placement.size(), db->facts()->num_ops);
  db.reset();
  EXPECT_EQ(files(), before);
}

TEST_F(RunOfSchema4, IsBroughtUpToDateByWhoGoesOn) {
  const std::string as_it_was = all_of(**RunDb::open_quiet(directory_));
  {
    auto db = *RunDb::open(directory_, true);
    EXPECT_EQ(all_of(*db), as_it_was);
    EpisodeRow row = episode(7);
    auto measured = measurements(7);
    row.placement_id = 1000;
    for (auto& m : measured) m.placement_id += 1000 - 12;
    measured[0].failure = "crashed: signal 11";
    ASSERT_TRUE(db->add_episode(row, measured).ok());
    ASSERT_TRUE(db->commit().ok());
  }
  auto again = *RunDb::open_quiet(directory_);
  EXPECT_TRUE(again->verify().ok()) << again->verify().error().context;
  EXPECT_EQ(again->counters()->episodes, 7u);
  EXPECT_EQ(again->measurements(7, 10)->front().failure, "crashed: signal 11");
}

// Every region of the file: header, table and index pages, what is free.
TEST_F(RunDbTest, AFlippedByteIsRefusedOrMakesNoDifference) {
  make_whole_run();
  const std::string whole = all_of(**RunDb::open_quiet(directory_));
  ASSERT_NE(whole, "");
  const Bytes file = *read_file(directory_ / "run.db");
  Rng rng{11, Purpose::kTest, 0};
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < 120; ++at) places.push_back(at);  // The header, and the first page's.
  for (int i = 0; i < 500; ++i) places.push_back(rng.below(static_cast<std::uint32_t>(file.size())));
  int refused = 0;
  for (const std::size_t at : places) {
    Bytes flipped = file;
    flipped[at] ^= static_cast<std::byte>(1u << rng.below(8));
    overwrite(directory_ / "run.db", flipped);
    const auto opened = RunDb::open_quiet(directory_);
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

TEST_F(RunDbTest, ATruncatedFileIsRefused) {
  make_whole_run();
  const std::string whole = all_of(**RunDb::open_quiet(directory_));
  const Bytes file = *read_file(directory_ / "run.db");
  std::size_t refused = 0;
  for (std::size_t size = 0; size < file.size(); size += 509) {
    overwrite(directory_ / "run.db", std::span{file}.first(size));
    const auto opened = RunDb::open_quiet(directory_);
    if (opened.ok() && (*opened)->verify().ok()) {
      EXPECT_EQ(all_of(**opened), whole) << size;  // The end of the last page was free.
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, file.size() / 509 * 3 / 4);
}

// What was acknowledged and still lies in SQLite's log: a byte of it lost loses the rest, which head.seq
// tells.
TEST_F(RunDbTest, AFlippedByteOfTheLogIsRefusedOrMakesNoDifference) {
  make_whole_run();
  std::string whole;
  const std::filesystem::path copy = directory_.string() + "-copy";
  {
    auto db = *RunDb::open(directory_, true);
    for (std::uint64_t seq = 4; seq <= 6; ++seq) {
      ASSERT_TRUE(db->add_episode(episode(seq), measurements(seq)).ok());
      ASSERT_TRUE(db->commit().ok());
    }
    whole = all_of(*db);
    std::filesystem::remove_all(copy);
    std::filesystem::copy(directory_, copy);  // As a power cut leaves it.
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
      const auto opened = RunDb::open_quiet(directory_);
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

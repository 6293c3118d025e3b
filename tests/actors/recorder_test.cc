// Goal: the recorder returns exactly what it received.  Method: messages delivered by hand, a real database.
#include "actors/recorder.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "messages/run_control.h"
#include "tests/runtime/sim/world.h"
#include "tests/support/scratch_folder.h"

namespace emplace::actors {
namespace {

using messages::CheckpointDelivered;
using messages::CheckpointRequested;
using messages::EpisodeReported;
using runtime::sim::World;

class RecorderTest : public ::testing::Test {
 protected:
  void start(const RecorderOptions& options) {
    const std::filesystem::path directory = folder_.path() / "run";
    ASSERT_TRUE(record::RunWriter::create(directory, {}).ok());
    recorder_ = world_.spawn<Recorder>(
        kRecorder, options, RunWriterFactory{[directory] { return record::RunWriter::open(directory); }},
        BestHandler{[](std::span<const DeviceId>, const messages::EpisodeMeasured&, std::uint32_t) {}});
  }
  /// Sends a checkpoint of `update`, whose bytes are all `mark`.
  void take(std::uint64_t update, std::size_t size, std::byte mark) {
    messages::CheckpointTaken taken{update, update, std::to_string(update), {}, {}, 1, 0, size};
    messages::BulkBuilder bulk;
    taken.parameters = bulk.add(Bytes(size / 2, mark));
    taken.optimizer = bulk.add(Bytes(size - size / 2, mark));
    world_.deliver(recorder_, taken, bulk.finish(), runtime::actor_id(kLearner));
  }
  /// Requests the chunk at `offset` and appends its bytes to `fetched_`.
  CheckpointDelivered fetch(std::uint64_t offset) {
    world_.deliver(recorder_, CheckpointRequested{0, offset, 1}, {}, runtime::actor_id(kLearner));
    const runtime::sim::Packet* packet = world_.last_of(CheckpointDelivered::kType);
    const auto delivered = world_.last_sent<CheckpointDelivered>();
    const auto piece = packet->bulk.bytes().subspan(delivered.piece.offset, delivered.piece.size);
    fetched_.insert(fetched_.end(), piece.begin(), piece.end());
    return delivered;
  }

  /// An episode of one placement.
  void report(std::uint64_t episode, std::uint64_t placement_id) {
    messages::EpisodeReported reported;
    messages::EpisodeMeasured& m = reported.measured;
    m.episode = episode;
    m.placement_id = placement_id;
    m.count = m.num_ops = m.num_devices = 1;
    m.executors = m.executor_kinds = m.hosts = {"somebody"};
    m.resize(m.count, m.num_devices);
    reported.placements = {0, 1};
    world_.deliver(recorder_, reported, messages::SharedBytes::copy(Bytes(1)),
                   runtime::actor_id(kDispatcher));
  }

  /// The recorder stops, and its database is closed.
  void end() {
    world_.stop();
    world_.crash(recorder_);
  }
  void expect_one_episode() {
    const auto db = record::RunReader::open(folder_.path() / "run", record::Reading::kInProgress);
    ASSERT_TRUE(db.ok()) << db.error().context;
    EXPECT_TRUE((*db)->verify().ok());
    EXPECT_EQ((*db)->results().counters()->episodes, 1u);
  }

  testing::ScratchFolder folder_{"recorder"};
  World world_;
  runtime::ActorId recorder_{};
  Bytes fetched_;
};

TEST_F(RecorderTest, CheckpointInChunksIsOneCheckpoint) {
  start({.checkpoint_chunk = 1'000});
  take(0, 2'500, std::byte{1});
  EXPECT_EQ(fetch(0).total, 2'500u);
  world_.deliver(recorder_, messages::UpdateApplied{.update = 1, .policy_version = 1, .epoch = 1});
  take(1, 2'500, std::byte{2});
  EXPECT_EQ(fetch(1'000).update, 0u) << "a newer checkpoint does not restart the transfer";
  EXPECT_EQ(fetch(2'000).piece.size, 500u);
  EXPECT_EQ(fetched_, Bytes(2'500, std::byte{1}));
  EXPECT_EQ(fetch(0).update, 1u);
}

TEST_F(RecorderTest, DeletedDatabaseIsRewrittenBeforeTheNextAcknowledgement) {
  start({});
  report(1, 1);
  world_.advance(std::chrono::seconds{1});
  std::filesystem::remove(folder_.path() / "run" / "run.db");
  report(2, 2);
  world_.advance(std::chrono::milliseconds{20});
  EXPECT_EQ(world_.last_sent<messages::EpisodesRecorded>().episodes, std::vector<std::uint64_t>{1});
  world_.advance(std::chrono::seconds{3});
  report(2, 2);  // The dispatcher repeats its report until it is acknowledged.
  world_.advance(std::chrono::seconds{1});
  EXPECT_EQ(world_.last_sent<messages::EpisodesRecorded>().episodes, std::vector<std::uint64_t>{2});
  EXPECT_FALSE(world_.stopped());
  const auto db = record::RunReader::open(folder_.path() / "run", record::Reading::kInProgress);
  ASSERT_TRUE(db.ok()) << db.error().context;
  EXPECT_EQ((*db)->results().counters()->episodes, 2u);
}

TEST_F(RecorderTest, ReplacedDatabaseEndsTheRun) {
  start({});
  report(1, 1);
  world_.advance(std::chrono::seconds{1});
  ASSERT_TRUE(record::RunWriter::create(folder_.path() / "other", {}).ok());
  const Bytes other = *read_file(folder_.path() / "other" / "run.db");
  std::filesystem::rename(folder_.path() / "other" / "run.db", folder_.path() / "run" / "run.db");
  world_.advance(std::chrono::seconds{1});
  ASSERT_TRUE(world_.stopped());
  EXPECT_NE(world_.stopped()->find("another file took the place of run.db"), std::string::npos)
      << *world_.stopped();
  // The process exists until the launcher ends it: nothing is written into the other file meanwhile.
  report(2, 2);
  world_.advance(std::chrono::seconds{5});
  report(2, 2);
  world_.advance(std::chrono::seconds{1});
  EXPECT_EQ(world_.last_sent<messages::EpisodesRecorded>().episodes, std::vector<std::uint64_t>{1});
  EXPECT_EQ(*read_file(folder_.path() / "run" / "run.db"), other) << "not a byte";
}

TEST_F(RecorderTest, DatabaseOfAnotherRunIsRefused) {
  start({});
  report(1, 1);
  world_.advance(std::chrono::seconds{1});
  const std::filesystem::path run = folder_.path() / "run", other = folder_.path() / "other";
  {
    auto db = *record::RunWriter::create(other, {});
    record::EpisodeRow row{1, 50, 0, 0, 1, "", Bytes(1), {}, 50};
    record::MeasurementRow measured;
    measured.placement_id = measured.episode = 50;
    ASSERT_TRUE(*db->add_episode(row, {measured}));
    ASSERT_TRUE(db->commit().ok());
  }
  std::filesystem::rename(run, folder_.path() / "lost");
  world_.advance(std::chrono::seconds{2});
  std::filesystem::rename(other, run);
  world_.advance(std::chrono::seconds{3});
  ASSERT_TRUE(world_.stopped());
  EXPECT_NE(world_.stopped()->find("is not the record that this run has written"), std::string::npos)
      << *world_.stopped();
}

TEST_F(RecorderTest, DeletedDatabaseThatCannotBeRewrittenStaysOpen) {
  start({});
  report(1, 1);
  world_.advance(std::chrono::seconds{1});
  const std::filesystem::path run = folder_.path() / "run";
  std::filesystem::create_directories(run / "run.db.again" / "in the way");
  std::filesystem::remove(run / "run.db");
  world_.advance(std::chrono::seconds{5});
  EXPECT_FALSE(world_.stopped());
  EXPECT_GT(world_.last_sent<messages::RecordProgress>().disk_waits_s, 3);
  std::filesystem::remove_all(run / "run.db.again");
  world_.advance(std::chrono::seconds{2});
  expect_one_episode();
}

TEST_F(RecorderTest, DatabaseDeletedAtTheEndIsRewritten) {
  start({});
  report(1, 1);
  world_.advance(std::chrono::seconds{1});
  std::filesystem::remove(folder_.path() / "run" / "run.db");
  end();
  expect_one_episode();
}

TEST_F(RecorderTest, DatabaseDeletedBeforeTheLastCommitIsRewritten) {
  start({});
  report(1, 1);
  world_.advance(std::chrono::seconds{1});
  std::filesystem::remove(folder_.path() / "run" / "run.db");
  report(2, 2);
  end();
  EXPECT_EQ(world_.last_sent<messages::EpisodesRecorded>().episodes, std::vector<std::uint64_t>{1});
  expect_one_episode();
}

// The disk refuses writes at first; the end is the last chance.
TEST_F(RecorderTest, DeletedDatabaseThatWaitsForTheDiskIsRewrittenAtTheEnd) {
  start({});
  report(1, 1);
  world_.advance(std::chrono::seconds{1});
  const std::filesystem::path run = folder_.path() / "run";
  std::filesystem::create_directories(run / "run.db.again" / "in the way");
  std::filesystem::remove(run / "run.db");
  world_.advance(std::chrono::milliseconds{600});
  ASSERT_FALSE(std::filesystem::exists(run / "run.db"));
  std::filesystem::remove_all(run / "run.db.again");
  end();
  expect_one_episode();
}

TEST_F(RecorderTest, OlderCopyIsRefused) {
  start({});
  const std::filesystem::path run = folder_.path() / "run", away = folder_.path() / "away";
  std::filesystem::copy(run, away, std::filesystem::copy_options::recursive);
  report(1, 1);
  world_.advance(std::chrono::seconds{1});
  std::filesystem::rename(run, folder_.path() / "lost");
  world_.advance(std::chrono::seconds{5});
  EXPECT_FALSE(world_.stopped()) << "it may come back";
  for (const char* name : {"run.db-wal", "run.db-shm"}) std::filesystem::remove(away / name);
  std::filesystem::rename(away, run);
  world_.advance(std::chrono::seconds{2});
  ASSERT_TRUE(world_.stopped());
  EXPECT_NE(world_.stopped()->find("holds 0 episodes of 1 that were acknowledged"), std::string::npos)
      << *world_.stopped();
}

TEST_F(RecorderTest, EpisodeWithAnotherEpisodesPlacementIsNotAcknowledged) {
  start({});
  report(1, 7);
  world_.advance(std::chrono::seconds{1});
  report(2, 7);
  world_.advance(std::chrono::seconds{1});
  EXPECT_EQ(world_.last_sent<messages::EpisodesRecorded>().episodes, std::vector<std::uint64_t>{1});
  ASSERT_TRUE(world_.stopped());
  EXPECT_NE(world_.stopped()->find("another episode has one of its placements (from 7 on)"),
            std::string::npos)
      << *world_.stopped();
}

TEST_F(RecorderTest, HugeEpisodeNumberDoesNotExhaustMemory) {
  start({});
  messages::EpisodeReported reported;
  messages::EpisodeMeasured& m = reported.measured;
  m.episode = std::uint64_t{1} << 62;
  m.count = m.num_ops = m.num_devices = 1;
  m.executors = m.executor_kinds = m.hosts = {"somebody"};
  m.resize(m.count, m.num_devices);
  messages::BulkBuilder bulk;
  reported.placements = bulk.add(Bytes{std::byte{0}});
  world_.deliver(recorder_, reported, bulk.finish(), runtime::actor_id(kDispatcher));
  world_.deliver(recorder_, messages::EpisodesAsked{0, 1, true, {}}, {}, runtime::actor_id(sampler_name(0)));
  const auto known = world_.last_sent<messages::EpisodesKnown>();
  EXPECT_EQ(known.next_episode, m.episode + 1);
  EXPECT_EQ(known.recorded, std::vector<std::uint64_t>{m.episode});
  EXPECT_LE(known.missing.size(), 65'536u);
  EXPECT_EQ(known.missing.at(7), 7u);
}

TEST_F(RecorderTest, ValuesThatDoNotRoundTripAreNotRecorded) {
  start({});
  EpisodeReported sound;
  messages::EpisodeMeasured& m = sound.measured;
  m.count = m.num_ops = m.num_devices = 1;
  m.executors = m.executor_kinds = m.hosts = {"somebody"};
  m.resize(m.count, m.num_devices);
  sound.placements = {0, 1};
  std::uint64_t episode = 0;
  const auto report = [&](const std::function<void(messages::EpisodeMeasured&)>& change) {
    EpisodeReported reported = sound;
    reported.measured.episode = reported.measured.placement_id = ++episode;
    change(reported.measured);
    world_.deliver(recorder_, reported, messages::SharedBytes::copy(Bytes(1)),
                   runtime::actor_id(kDispatcher));
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  report([](auto& e) { e.step_time_s = {kNan}; });
  report([](auto& e) { e.synthetic_shares = {kNan}; });
  report([](auto& e) { e.labels = {5}; });
  report([](auto& e) { e.hosts = {std::string{"a\0b", 3}}; });
  report([](auto& e) { e.sample_counts = {1}, e.samples_s = {kNan}; });
  report([](auto& e) { e.step_time_s = {-0.0}, e.failures = {"crashed: \xff\x1b"}; });  // Is normalized.
  messages::UpdateApplied update{.update = 1, .policy_version = 1, .epoch = 1};
  update.loss = kNan;
  world_.deliver(recorder_, update);
  world_.advance(std::chrono::seconds{1});
  EXPECT_EQ(world_.last_sent<messages::EpisodesRecorded>().episodes, std::vector<std::uint64_t>{episode});
  EXPECT_EQ(world_.last_sent<messages::RecordProgress>().updates, 0u);
  end();
  expect_one_episode();
}

TEST_F(RecorderTest, SaturatedPolicyIsAWarningAlsoOfTheNextIncarnation) {
  start({.saturation_cure = "lower policy.learning_rate"});
  messages::UpdateApplied update{.epoch = 1};
  update.learning_rate = 0.1;
  const auto apply = [&](double gradient_norm) {
    update.policy_version = ++update.update;
    update.gradient_norm = gradient_norm;
    world_.deliver(recorder_, update);
    world_.deliver(recorder_, update);  // A repeat is no second update.
    world_.advance(std::chrono::milliseconds{20});
    return world_.last_sent<messages::RecordProgress>().warning;
  };
  EXPECT_EQ(apply(3), "");
  for (int i = 0; i < 49; ++i) ASSERT_EQ(apply(0), "") << i;
  const std::string warning =
      "the policy is saturated: the gradient was below 1e-10 in updates 2 to 51, so it learns nothing more; "
      "lower policy.learning_rate";
  EXPECT_EQ(apply(0), warning);
  EXPECT_EQ(apply(0), warning) << "the same, so that the launcher shows it once";
  world_.crash(recorder_);
  world_.restart(recorder_);
  EXPECT_NE(apply(0).find("updates 2 to 52,"), std::string::npos) << "derived from the record";
}

}  // namespace
}  // namespace emplace::actors

// Goal: a learner sends each request and each answer once.  Method: messages delivered by hand; a policy that
// has learned nothing.
#include "actors/learner.h"

#include <gtest/gtest.h>

#include "actors/recorder.h"
#include "messages/run_control.h"
#include "policy/placers/hierarchical.h"
#include "tests/runtime/sim/network.h"
#include "tests/runtime/sim/world.h"
#include "tests/support/sample_graphs.h"
#include "tests/support/scratch_folder.h"

namespace emplace::actors {
namespace {

std::unique_ptr<policy::Placer> small_placer(const testing::SampleTask& task) {
  policy::HierarchicalOptions options;
  options.groups = 2;
  options.hidden = options.grouper_hidden = 4;
  return *policy::HierarchicalPlanner::make({{{&task.graph, &task.devices, &task.constraints}, {}}}, options,
                                            1);
}

class LearnerTest : public ::testing::Test {
 protected:
  std::unique_ptr<policy::Placer> placer() const { return small_placer(task); }

  const testing::SampleTask task{testing::random_graph(1, 12), testing::sample_devices(2, false, 1 << 30)};
  runtime::sim::World world;
  const runtime::ActorId learner =
      world.spawn<Learner>(kLearner, LearnerOptions{}, PlacerFactory{[this] { return placer(); }});
};

TEST_F(LearnerTest, RepeatedChunkOfACheckpointIsRequestedOnce) {
  const auto trained = placer();
  const auto bytes = messages::SharedBytes::copy(trained->parameters().bytes());
  const auto asked = [&] { return world.sent<messages::CheckpointRequested>().size(); };
  const auto deliver = [&](std::uint64_t offset, std::uint64_t size) {
    world.deliver(learner,
                  messages::CheckpointDelivered{
                      true, 3, trained->parameters().sha256(), bytes.size(), bytes.size(), offset, {0, size}},
                  bytes.slice(offset, size));
  };
  ASSERT_EQ(asked(), 1u);
  for (int i = 0; i < 3; ++i) deliver(0, 100);
  EXPECT_EQ(asked(), 2u);
  EXPECT_EQ(world.last_sent<messages::CheckpointRequested>().offset, 100u);
  deliver(100, bytes.size() - 100);
  EXPECT_EQ(asked(), 2u);
  EXPECT_EQ(world.last_sent<messages::UpdateRequested>().after, 3u)
      << "it has the whole checkpoint and continues from there";
}

// A queue holds 256 MiB; a checkpoint may be larger.
TEST(Learner, FetchesACheckpointLargerThanTheQueue) {
  const testing::SampleTask task{testing::random_graph(1, 12), testing::sample_devices(2, false, 1 << 30)};
  const testing::ScratchFolder folder{"learner"};
  const std::filesystem::path run = folder.path() / "run";
  ASSERT_TRUE(record::RunWriter::create(run, {}).ok());
  runtime::sim::World world;
  world.network().configure({.queue = 3});
  world.spawn<Recorder>(
      kRecorder, RecorderOptions{}, RunWriterFactory{[run] { return record::RunWriter::open(run); }},
      BestHandler{[](std::span<const DeviceId>, const messages::EpisodeMeasured&, std::uint32_t) {}});
  LearnerOptions options;
  options.checkpoint_chunk = small_placer(task)->parameters().bytes().size() / 20;
  const auto apart = world.add_node("learner");
  world.spawn_on(apart, kLearner, [&] {
    return std::make_unique<Learner>(options, PlacerFactory{[&] { return small_placer(task); }});
  });
  world.advance(std::chrono::seconds{10});
  EXPECT_FALSE(world.sent<messages::UpdateReplayed>().empty())
      << "it was asked for, so the first one is on disk";
  EXPECT_EQ((*record::RunReader::open(run, record::Reading::kInProgress))->results().counters()->checkpoints,
            1u);
}

/// A learner that learns from one episode at a time.
class LearningTest : public LearnerTest {
 protected:
  void begin(const LearnerOptions& options) {
    learner_ = world.spawn<Learner>("learner/1", options, PlacerFactory{[this] { return placer(); }});
    world.deliver(learner_, messages::CheckpointDelivered{});
    world.deliver(learner_, messages::UpdatesRecorded{});
    world.deliver(learner_, messages::UpdateReplayed{});
    world.clear_log();
  }
  /// The next episode, drawn with version 0, with the measurements of log number `of`; 0: with its own.
  void learn_from(double advantage, std::uint64_t of = 0) {
    const policy::Actions actions = placer()->sample(seq_, 0);
    messages::EpisodeCommitted committed;
    messages::EpisodeScored scored;
    committed.seq = scored.seq = ++seq_;
    committed.measured.episode = scored.episode = seq_;
    committed.measured.placement_id = 100 * (of > 0 ? of : seq_);
    committed.measured.count = 1;
    committed.actions = {0, actions.bytes.size()};
    scored.advantages.assign(placer()->placements_per_episode(), advantage);
    world.deliver(learner_, committed, messages::SharedBytes::copy(actions.bytes));
    world.deliver(learner_, scored);
  }
  runtime::ActorId learner_{};
  std::uint64_t seq_ = 0;
};

TEST_F(LearningTest, StaleEpisodeIsConsumedWithoutEffectAndCounted) {
  LearnerOptions options;
  options.max_staleness = 2;
  begin(options);
  for (int i = 0; i < 5; ++i) learn_from(0.5);
  const auto applied = world.sent<messages::UpdateApplied>();
  ASSERT_EQ(applied.size(), 5u);
  for (std::uint64_t u = 0; u < 5; ++u) {
    EXPECT_EQ(applied[u].staleness_max, u);
    EXPECT_EQ(applied[u].episodes, std::vector<std::uint64_t>{u + 1}) << "it is consumed nevertheless";
    for (const float advantage : applied[u].advantages) EXPECT_EQ(advantage, u <= 2 ? 0.5f : 0.0f);
  }
}

TEST_F(LearningTest, ReportsMeasurementsConsumedTwice) {
  begin({});
  learn_from(0.5);
  learn_from(0.5);
  EXPECT_TRUE(world.sent<messages::ConsumedTwice>().empty());
  learn_from(0.5, 1);  // As if the recorder had not refused a repeated episode.
  EXPECT_EQ(world.last_sent<messages::ConsumedTwice>().placement_ids, std::vector<std::uint64_t>{100});
}

TEST_F(LearningTest, DivergedUpdateIsNotPublishedAndEndsTheRun) {
  LearnerOptions options;
  options.samplers = {"sampler/0"};
  begin(options);
  learn_from(0.5);
  EXPECT_EQ(world.sent<messages::UpdateApplied>().size(), 2u) << "to recorder and sampler";
  world.clear_log();
  learn_from(1e300);
  ASSERT_TRUE(world.stopped().has_value());
  EXPECT_EQ(*world.stopped(),
            "update 2: an advantage is not finite; choose smaller numbers in the section reward");
  world.deliver(learner_, messages::ParametersRequested{}, {}, runtime::actor_id("sampler/0"));
  learn_from(0.5);
  world.stop();
  EXPECT_TRUE(world.sent<messages::UpdateApplied>().empty());
  EXPECT_TRUE(world.sent<messages::ParametersPublished>().empty());
  EXPECT_TRUE(world.sent<messages::ParametersDelivered>().empty());
  for (const auto& packet : world.log()) {
    if (packet.envelope.from != learner_) continue;
    EXPECT_NE(packet.envelope.type, messages::CheckpointTaken::kType);
  }
}

TEST_F(LearnerTest, RepeatedRequestsAreAnsweredOnce) {
  for (const std::uint32_t controller : {0, 1, 0, 0, 1}) {
    world.deliver(learner, messages::ParametersRequested{}, {}, runtime::actor_id(sampler_name(controller)));
  }
  world.deliver(learner, messages::CheckpointDelivered{});
  world.deliver(learner, messages::UpdatesRecorded{});
  EXPECT_TRUE(world.sent<messages::ParametersDelivered>().empty()) << "it does not know yet where it is";
  world.deliver(learner, messages::UpdateReplayed{});
  EXPECT_EQ(world.sent<messages::ParametersDelivered>().size(), 2u);
}

}  // namespace
}  // namespace emplace::actors

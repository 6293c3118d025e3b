// Goal: a learner asks, and answers, once.  Method: messages delivered by hand; a policy that has learned
// nothing.
#include "actors/learner.h"

#include <gtest/gtest.h>

#include "actors/recorder.h"
#include "policy/placers/hierarchical.h"
#include "runtime/sim/network.h"
#include "runtime/sim/world.h"
#include "tests/support/sample_graphs.h"
#include "tests/support/scratch_folder.h"

namespace emplace::actors {
namespace {

std::unique_ptr<policy::Placer> small_placer(const testing::SampleTask& task) {
  policy::HierarchicalOptions options;
  options.groups = 2;
  options.hidden = options.grouper_hidden = 4;
  return *policy::HierarchicalPlanner::make(task.graph, task.devices, task.constraints, options, {}, 1);
}

class LearnerTest : public ::testing::Test {
 protected:
  std::unique_ptr<policy::Placer> placer() const { return small_placer(task); }

  const testing::SampleTask task{testing::random_graph(1, 12), testing::sample_devices(2, false, 1 << 30)};
  runtime::sim::World world;
  const runtime::ActorId learner =
      world.spawn<Learner>(kLearner, LearnerOptions{}, PlacerFactory{[this] { return placer(); }});
};

TEST_F(LearnerTest, APieceOfACheckpointThatComesTwiceIsAskedForOnce) {
  const auto trained = placer();
  const auto bytes = messages::SharedBytes::copy(trained->parameters().bytes());
  const auto asked = [&] { return world.sent<messages::HistoryRequested>().size(); };
  const auto deliver = [&](std::uint64_t offset, std::uint64_t size) {
    world.deliver(learner,
                  messages::CheckpointDelivered{
                      true, 3, trained->parameters().sha256(), bytes.size(), bytes.size(), offset, {0, size}},
                  bytes.slice(offset, size));
  };
  ASSERT_EQ(asked(), 1u);
  for (int i = 0; i < 3; ++i) deliver(0, 100);
  EXPECT_EQ(asked(), 2u);
  EXPECT_EQ(world.last_sent<messages::HistoryRequested>().offset, 100u);
  deliver(100, bytes.size() - 100);
  EXPECT_FALSE(world.last_sent<messages::HistoryRequested>().checkpoint);
  EXPECT_EQ(world.last_sent<messages::HistoryRequested>().update, 3u)
      << "it has it all, and goes on from there";
}

// A queue takes 256 MiB, and a checkpoint may be larger.
TEST(Learner, ACheckpointThatIsLargerThanTheQueueArrivesAllTheSame) {
  const testing::SampleTask task{testing::random_graph(1, 12), testing::sample_devices(2, false, 1 << 30)};
  const testing::ScratchFolder folder{"learner"};
  const std::filesystem::path run = folder.path() / "run";
  ASSERT_TRUE(record::RunDb::create(run, {}).ok());
  runtime::sim::World world;
  world.network().configure({.queue = 3});
  world.spawn<Recorder>(
      kRecorder, RecorderOptions{}, RunDbFactory{[run] { return record::RunDb::open(run, true); }},
      BestHandler{[](std::span<const DeviceId>, const messages::EpisodeMeasured&, std::uint32_t) {}});
  LearnerOptions options;
  options.checkpoint_piece = small_placer(task)->parameters().bytes().size() / 20;
  const auto apart = world.add_node("learner");
  world.spawn_on(apart, kLearner, [&] {
    return std::make_unique<Learner>(options, PlacerFactory{[&] { return small_placer(task); }});
  });
  world.advance(std::chrono::seconds{10});
  EXPECT_FALSE(world.sent<messages::UpdateReplayed>().empty())
      << "it was asked for, so the first one is on disk";
  EXPECT_EQ((*record::RunDb::open(run, false))->counters()->checkpoints, 1u);
}

TEST_F(LearnerTest, WhoAsksAgainWhileItWaitsIsAnsweredOnce) {
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
